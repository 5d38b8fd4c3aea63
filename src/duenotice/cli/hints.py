"""The commands that show the lists which a hint of the service may name."""

from duenotice.errors import Listing

COMMANDS = {
    Listing.VMS: "'duenotice vm list'",
    Listing.GROUPS: "'duenotice scale-set list'",
    Listing.HOSTS: "'duenotice host list'",
    Listing.EVENTS: "'duenotice events list'",
    Listing.MAINTENANCES: "'duenotice maintenance list'",
    Listing.TOKENS: "'duenotice token list'",
    Listing.AUDIT: "'duenotice audit'",
}
