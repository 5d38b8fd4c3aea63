"""Errors between the command line and the service, in addition to the errors of duenotice itself."""

from duenotice.errors import DuenoticeError


class Denied(DuenoticeError):
    """The token is missing or wrong, or its role does not allow this."""


class TimedOut(DuenoticeError):
    """It took longer than was allowed."""


class Failed(DuenoticeError):
    """It began, and did not succeed."""
