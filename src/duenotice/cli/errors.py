"""What can go wrong between the command line and the service, beside the errors of duenotice itself."""

from duenotice.errors import DuenoticeError


class Denied(DuenoticeError):
    """The token is missing, wrong, or may not do this."""


class TimedOut(DuenoticeError):
    """It took longer than was allowed."""


class Failed(DuenoticeError):
    """What was asked for has begun and did not succeed."""
