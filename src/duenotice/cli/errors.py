"""How a command can end badly on our side of the service, in addition to the errors of duenotice and of its client."""

from duenotice.errors import DuenoticeError


class NotInTime(DuenoticeError):
    """It took longer than was allowed."""


class Failed(DuenoticeError):
    """It began, and did not succeed."""
