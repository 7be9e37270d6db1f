"""How a command fails: one line on stderr, and an exit code that scripts can tell apart."""

OK = 0
FAILED = 1
USAGE = 2


class Failure(Exception):
    """The command could not do its work. The text is one helpful line; the exit code is 1."""

    exit_code = FAILED


class UsageError(Failure):
    """The command line itself is wrong. The exit code is 2."""

    exit_code = USAGE
