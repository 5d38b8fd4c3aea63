"""What is written into the metadata of a libvirt domain about impacts on it."""

from xml.etree import ElementTree

from duenotice.host.hypervisor import NAMESPACE, NOTES_KEY, NOTES_NAMESPACE, Note, notes_element, notes_in, notes_of
from tests.golden.compare import assert_golden, golden
from tests.golden.examples import NOON, full

FILE = "domain_notes.txt"
ID = "805C2F53-88EE-4045-95F8-788FD1634F66"
NOTES = {
    "it has begun": Note(ID, "reboot", "begun"),
    "it is paused until then": Note(ID, "freeze", "paused", NOON.replace(microsecond=600)),
    "it is done, and the domain stays off": Note(ID, "terminate", "done", starts=False, what='shut <down> & "off" é'),
    "it moves": Note(ID, "freeze", "begun", NOON, mark=True, boot="boot-1", ends=17, target="host-2", uuid="a-uuid"),
    "all fields": full(Note)._replace(starts=False),
}


def test_the_notes_in_a_domain_are_those_that_were() -> None:
    """Their element, its names and attributes."""
    head = f"namespace {NAMESPACE}\nnamespace {NOTES_NAMESPACE}\nkey {NOTES_KEY}"
    told = [f"== {title}\n{notes_element([note])}" for title, note in NOTES.items()]
    assert_golden(FILE, "\n\n".join([head, *told, f"== all of them\n{notes_element(list(NOTES.values()))}"]))


def test_notes_that_were_written_are_read_as_they_were() -> None:
    """Alone, and in a whole domain, where libvirt puts them under our namespace."""
    head, *parts = golden(FILE).rstrip("\n").split("\n\n")
    texts = [part.partition("\n")[2] for part in parts]
    assert [notes_of(text) for text in texts] == [*((note,) for note in NOTES.values()), tuple(NOTES.values())]
    inside = texts[-1].replace("<impacts", f"<impacts xmlns='{head.splitlines()[1].removeprefix('namespace ')}'")
    domain = ElementTree.fromstring(f"<domain><metadata>{inside}</metadata></domain>")
    assert notes_in(domain) == tuple(NOTES.values())
    assert (notes_of(""), notes_in(ElementTree.fromstring("<domain/>"))) == ((), ())
