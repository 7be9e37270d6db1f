"""What ends a broker before it serves."""


class StartError(Exception):
    """The broker can't start; the text is one line that says why."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code
