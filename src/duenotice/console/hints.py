"""The pages that show the lists which a hint of the service may name."""

from duenotice.errors import DuenoticeError, LookAt

PAGES = {
    LookAt.VMS: "The page Fleet",
    LookAt.GROUPS: "The page Fleet",
    LookAt.HOSTS: "The page Hosts",
    LookAt.EVENTS: "The page Events",
    LookAt.MAINTENANCES: "The page Maintenance",
    LookAt.SUBSCRIPTIONS: "The page Push",
    LookAt.AUDIT: "The page Audit",
    LookAt.TOKENS: "The page Tokens",
}


def with_pages(error: DuenoticeError) -> DuenoticeError:
    """The error with a hint that names a page, where the service's hint names a list."""
    error.hint = error.hint_in(PAGES)
    return error
