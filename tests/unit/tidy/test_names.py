"""Words: a class name means one thing, and the domain knows no paths of others."""

from functools import cache

import pytest

from tests.unit.tidy.house import HOUSE, excused, name_of
from tools.measure_house import classes

AS_JSON = {
    *(
        "Clock",
        "Document",
        "Event",
        "EventsPolicy",
        "Fleet",
        "Group",
        "Host",
        "Maintenance",
        "PlannedStep",
        "Record",
        "Site",
        "Step",
    ),
    *("SetAside", "Subscription", "Token", "Vm"),
}
"""What wire/operator calls as the domain does, because it is its JSON: who reads one knows the other."""

TWO_MEANINGS = {
    "Show": "also a line that a node sends its followers, written with its module there: no file knows both",
    "Options": "the keys of one kind of handler; nobody but its handler names it, and plugins do the same",
}
"""Other class names that are defined more than once, and why."""


def test_a_class_name_means_one_thing() -> None:
    """Who has met `Step` once must not wonder which. Names with an underscore before them stay in their file."""
    doubles = {
        name: f"{name} means {len(places)} things: {', '.join(places)}. Give all but one a name of their own"
        for name in all_places()
        if len(places := meanings(name)) > 1
    }
    excused(doubles, TWO_MEANINGS)


def meanings(name: str) -> list[str]:
    """The files that define a class of this name; the JSON of a thing is not another thing."""
    return [place for place in all_places()[name] if not (name in AS_JSON and place.startswith("wire/operator/"))]


def test_what_is_named_as_in_the_domain_is_its_json() -> None:
    """The names in the table are in both, in `domain/` (or the clock's) and in `wire/operator/`."""
    rooms = {name: {place.split("/")[0] for place in all_places()[name]} for name in AS_JSON}
    assert sorted(name for name, found in rooms.items() if not {"wire"} < found & {"wire", "domain", "clock.py"}) == []


@cache
def all_places() -> dict[str, list[str]]:
    """Where each class name is defined."""
    return classes(HOUSE)


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
