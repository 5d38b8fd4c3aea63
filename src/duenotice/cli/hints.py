"""The commands that show the lists which a hint of the service may name."""

from duenotice.errors import LookAt

COMMANDS = {
    LookAt.VMS: "'duenotice vm list'",
    LookAt.GROUPS: "'duenotice scale-set list'",
    LookAt.HOSTS: "'duenotice host list'",
    LookAt.EVENTS: "'duenotice events list'",
    LookAt.MAINTENANCES: "'duenotice maintenance list'",
    LookAt.TOKENS: "'duenotice token list'",
    LookAt.SUBSCRIPTIONS: "'duenotice subscription list'",
    LookAt.AUDIT: "'duenotice audit'",
}
