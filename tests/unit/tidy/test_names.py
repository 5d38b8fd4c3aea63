"""Words: a class name means one thing, and the domain knows no paths of others."""

import pytest

from tests.unit.tidy.house import HOUSE, excused, name_of
from tools.measure_house import classes

SAME_THING = "the JSON of what the domain calls by this name; who reads one knows the other"
MESSAGE = "a message of the members' table, written with its module: `m.Show`"
TWO_MEANINGS = dict.fromkeys(
    (
        *("Clock", "Document", "Event", "Fleet", "Group", "Host", "Maintenance", "PlannedStep", "Record", "Site"),
        *("Step", "Token", "Vm"),
    ),
    SAME_THING,
) | {
    **dict.fromkeys(("Failed", "Gone", "Heard", "Show", "Tick"), MESSAGE),
    "Phase": "of an event, and of a node in its cluster: no file knows both",
    "Options": "the keys of one kind of handler; nobody but its handler names it, and plugins do the same",
}
"""Class names that are defined more than once, and why that helps."""


def test_a_class_name_means_one_thing() -> None:
    """Whoever has met `Step` once must not wonder which. Names with an underscore before them stay in their file."""
    doubles = {
        name: f"{name} means {len(places)} things: {', '.join(places)}. Give all but one a name of their own"
        for name, places in classes(HOUSE).items()
        if len(places) > 1
    }
    excused(doubles, TWO_MEANINGS)


def test_the_domain_knows_no_paths() -> None:
    """Each door says in its own words how to get at things; a path of one of them would be wrong at the others."""
    told = {
        name_of(path): f"{name_of(path)} says '/v1/', which is the operator's API: name the list in the error instead"
        for path in sorted((HOUSE / "domain").rglob("*.py"))
        if "/v1/" in path.read_text()
    }
    excused(told, {})


def test_an_exception_that_is_not_needed_is_a_complaint() -> None:
    """So that nobody reads reasons for what is not so."""
    excused({"a": "a is long"}, {"a": "why"})
    with pytest.raises(AssertionError, match="b needs no exception any more"):
        excused({"a": "a is long"}, {"a": "why", "b": "why"})
    with pytest.raises(AssertionError, match="a is long"):
        excused({"a": "a is long"}, {})
