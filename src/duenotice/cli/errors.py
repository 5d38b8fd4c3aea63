"""How a command ends badly: errors of our own, exit codes, and hints in words of the command line."""

from duenotice.client.operator.errors import Denied, ForeignAnswer, NoAnswer, NotReached, UnknownToken
from duenotice.errors import DuenoticeError, LookAt, Malformed, Misconfigured, NotFound, Refused, Unavailable


class NotInTime(DuenoticeError):
    """It took longer than was allowed."""


class Failed(DuenoticeError):
    """It began, and did not succeed."""


EXIT_CODES: dict[type[DuenoticeError], int] = {
    DuenoticeError: 1,
    Malformed: 2,
    Misconfigured: 2,
    NotFound: 3,
    Refused: 4,
    Denied: 5,
    Unavailable: 6,
    NotInTime: 7,
    NoAnswer: 7,
}
HINTS: dict[type[DuenoticeError], str] = {
    NotReached: "Start it with 'duenotice serve', or name another with --endpoint or DUENOTICE_ENDPOINT.",
    ForeignAnswer: "Is this the operator's port, and of the version that 'duenotice --version' shows?",
    UnknownToken: "Set DUENOTICE_TOKEN, or DUENOTICE_TOKEN_FILE to admin.token in the service's data directory.",
}
LISTS = {
    LookAt.VMS: "'duenotice vm list'",
    LookAt.GROUPS: "'duenotice scale-set list'",
    LookAt.HOSTS: "'duenotice host list'",
    LookAt.EVENTS: "'duenotice events list'",
    LookAt.MAINTENANCES: "'duenotice maintenance list'",
    LookAt.TOKENS: "'duenotice token list'",
    LookAt.SUBSCRIPTIONS: "'duenotice subscription list'",
    LookAt.AUDIT: "'duenotice audit'",
}
"""The commands that show the lists which a hint of the service may name."""


def in_our_words(token: str, error: DuenoticeError) -> DuenoticeError:
    """The same error with hints for the command line instead of those for programs."""
    message, hint = error.message, HINTS.get(type(error)) or error.hint_in(LISTS)
    if isinstance(error, NotReached) and "certificate" in message:
        hint = "Set SSL_CERT_FILE to the CA of the service's certificate, and use a name that is in the certificate."
    if isinstance(error, UnknownToken):
        message = "The service does not know this token." if token else "No token was found, and the service needs one."
    return type(error)(message, hint=hint)
