"""The pages that are made from code say what the code says now."""

import pytest

from tools.references import PAGES, fleet_file, stale
from tools.references.rest import kind_of
from tools.references.words import cell, code, table


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name: str) -> None:
    """The message says what to run."""
    assert stale((name,)) == []


def test_a_key_of_the_fleet_file_is_noted_with_its_default_and_bounds() -> None:
    """As the reader of fleet files takes it; that one is as before afterwards."""
    noted = {(one.table, one.key): one for one in fleet_file.taken()}
    assert noted["availability_sets", "update_domains"][2:] == (int, 5, "1 to 20")
    assert noted["vms", "name"].default is ...
    assert fleet_file.taken() == list(noted.values())


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#/components/schemas/Vm"}, "[Vm](#vm)"),
        ({"$ref": "#/components/schemas/Page_Vm_"}, "page of [Vm](#vm)"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text or null"),
        ({"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 9}}, "list of whole number, 1 to 9"),
        ({"enum": ["", "a", "b"]}, "`a` `b`"),
        ({"type": "string", "format": "date-time"}, "time"),
        ({}, "any value"),
    ],
)
def test_a_type_is_told_in_words(schema: dict[str, object], words: str) -> None:
    """With links to what has a section of its own."""
    assert kind_of(schema) == words


def test_a_cell_cannot_end_its_row() -> None:
    """Nor begin a tag or a list."""
    assert table(("a",), [(cell("x | <y>\n*z"),), (code("p|q"),)]) == (
        "| a |\n| --- |\n| x \\| &lt;y> \\*z |\n| `p\\|q` |\n"
    )


def test_what_a_field_of_a_handler_is_for_comes_from_its_source() -> None:
    """Also for fields of a class above; a kind of value is told in words."""
    page = PAGES["handlers.md"]()
    assert "| `units` | list of texts | needed | Such as `nginx.service`. |" in page
    assert "| `server` | text |" in page.partition("## kubernetes")[2]
