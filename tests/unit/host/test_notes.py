"""What is written into a domain comes back as it was."""

from datetime import UTC, datetime
from xml.etree import ElementTree

from duenotice.host.notes import MOST, Note, element, find, notes_in, notes_of, put

NOTES = (
    Note("e1", "freeze", "paused", datetime(2026, 1, 2, 3, 4, 5, 600, UTC)),
    Note("e2", "reboot", "begun", starts=False, mark=True),
    Note("e3", "terminate", "done", what="shut <down>"),
    Note("e4", "freeze", "begun", datetime(2026, 1, 2, tzinfo=UTC), boot="b1", ends=17, target="h2", uuid="u1"),
)


def test_notes_come_back_as_they_were() -> None:
    assert notes_of(element(NOTES)) == NOTES
    assert notes_of("") == ()


def test_they_are_found_in_a_whole_domain() -> None:
    """libvirt puts our element, with its namespace, into the metadata."""
    inside = element(NOTES).replace("<impacts", "<impacts xmlns='urn:duenotice:libvirt:impacts:1'")
    domain = ElementTree.fromstring(f"<domain><metadata>{inside}</metadata></domain>")
    assert notes_in(domain) == NOTES
    assert notes_in(ElementTree.fromstring("<domain/>")) == ()


def test_a_note_replaces_the_older_one_of_its_event_and_is_the_last() -> None:
    newer = NOTES[0]._replace(step="done")
    assert put(NOTES, newer) == (*NOTES[1:], newer)
    assert find(NOTES, "e2") == NOTES[1]
    assert find(NOTES, "e9") is None


def test_the_oldest_are_forgotten() -> None:
    many = [Note(f"e{number}", "reboot", "done") for number in range(MOST + 3)]
    assert [note.event for note in notes_of(element(many))] == [f"e{number}" for number in range(3, MOST + 3)]
