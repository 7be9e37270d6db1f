"""What ends a broker before it serves."""


class StartError(Exception):
    """The broker can't start; the text is one line that says why."""
