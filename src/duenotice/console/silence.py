"""The question before a plan hits VMs that nobody would warn, and what is said after it has begun."""

from duenotice.console.attention import count
from duenotice.console.words import thousands
from duenotice.wire.operator import Timeline


def question(ahead: Timeline) -> str:
    """What has to be asked first; empty when every VM gets its notice."""
    if not ahead.silent:
        return ""
    now = "it happens now" if ahead.steps == 1 else "it happens as soon as their step begins"
    return f"Nobody listens on {thousands(ahead.silent)} of {count(ahead.vms, 'VM')}: there {now}, without notice."


def begun(ahead: Timeline) -> str:
    """What has happened."""
    return "The maintenance has begun." + (f" {count(ahead.silent, 'VM')} without notice." if ahead.silent else "")
