"""The pages that show the lists which a hint of the service may name; tokens have no page."""

from duenotice.errors import DuenoticeError, Listing

PAGES = {
    Listing.VMS: "The page Fleet",
    Listing.GROUPS: "The page Fleet",
    Listing.HOSTS: "The page Hosts",
    Listing.EVENTS: "The page Events",
    Listing.MAINTENANCES: "The page Maintenance",
    Listing.AUDIT: "The page Audit",
}


def with_pages(error: DuenoticeError) -> DuenoticeError:
    """The error with a hint that names a page, where the service's hint names a list."""
    error.hint = error.hint_in(PAGES)
    return error
