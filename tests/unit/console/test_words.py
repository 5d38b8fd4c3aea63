"""The words of the console are plain: what people read says what it is, in the words that others use."""

import re
from importlib.resources import files

import pytest

from duenotice.console import app as console

TEMPLATES = {each.name: each.read_text() for each in (files(console.__package__ or "") / "templates").iterdir()}
CODE = {each.name: each.read_text() for each in files(console.__package__ or "").iterdir() if each.name.endswith(".py")}
OLD = {
    r"(?i)on their own": "Standalone VMs",
    r"Now and coming": "Active and upcoming",
    r">Over<": "Past",
    r">Told<": "Notified",
    r">Hit<": "Affected VMs",
    r"by nobody": "not approved (notice ran out)",
    r"<dt>Duration": "Expected impact",
    r"Predict failure|Mark as ": "Mark degraded, Mark failed, Mark repaired",
    r">Begin<": "Start maintenance",
    r">Cancel it<": "Cancel maintenance, Cancel event",
    r"Steps over": "Progress",
    r"<dt>Source|<th>About": "Cause",
    r"<th>On<|>On <input": "Target",
    r"No VM matches|No host matches": "No VMs match",
    r"told, waiting|being hit": "notified, affected",
}


@pytest.mark.parametrize(("old", "new"), OLD.items())
def test_no_page_uses_words_that_only_we_understand(old: str, new: str) -> None:
    found = [name for name, text in (TEMPLATES | CODE).items() if re.search(old, text)]
    assert not found, f"write {new!r}"


def test_what_happens_to_vms_is_said_as_others_say_it() -> None:
    """VMs are notified and affected; only the motto on the way in has our words."""
    ours = re.compile(r"VMs? (are|is) (hit|told that)|(domain|Nothing) is hit|event was told")
    assert not [name for name, text in TEMPLATES.items() if ours.search(text)]


def test_no_page_shows_a_status_of_http() -> None:
    """A refusal says what happened, and never '200'."""
    assert not [name for name, text in TEMPLATES.items() if re.search(r"\{\{ ?status ?\}\}", text)]
