"""The pages that show the lists which a hint of the service may name; there is none of tokens."""

from duenotice.errors import Listing

PAGES = {
    Listing.VMS: "The page Fleet",
    Listing.GROUPS: "The page Fleet",
    Listing.HOSTS: "The page Hosts",
    Listing.EVENTS: "The page Events",
    Listing.MAINTENANCES: "The page Maintenance",
    Listing.AUDIT: "The page Audit",
}
