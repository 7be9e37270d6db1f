"""What a run ends with when something is wrong."""


class Violation(Exception):
    """A rule does not hold. `rule` names it, `detail` says where and how."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail
