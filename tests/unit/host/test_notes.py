"""Which notes about impacts a domain keeps. How they are written: tests/golden."""

from datetime import UTC, datetime

from duenotice.host.hypervisor import MOST_NOTES, Note, find_note, notes_element, notes_of, put_note

NOTES = (
    Note("e1", "freeze", "paused", datetime(2026, 1, 2, 3, 4, 5, 600, UTC)),
    Note("e2", "reboot", "begun", starts=False, mark=True),
    Note("e3", "terminate", "done", what="shut <down>"),
    Note("e4", "freeze", "begun", datetime(2026, 1, 2, tzinfo=UTC), boot="b1", ends=17, target="h2", uuid="u1"),
)


def test_a_note_replaces_the_older_one_of_its_event_and_is_the_last() -> None:
    newer = NOTES[0]._replace(step="done")
    assert put_note(NOTES, newer) == (*NOTES[1:], newer)
    assert find_note(NOTES, "e2") == NOTES[1]
    assert find_note(NOTES, "e9") is None


def test_the_oldest_are_forgotten() -> None:
    many = [Note(f"e{number}", "reboot", "done") for number in range(MOST_NOTES + 3)]
    assert [note.event for note in notes_of(notes_element(many))] == [
        f"e{number}" for number in range(3, MOST_NOTES + 3)
    ]
