"""The part of Resource Graph's query language that is understood, and what a query gets that is not."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.azure_api.kql import (
    DEEPEST,
    LONGEST,
    LONGEST_PATH,
    MOST_COLUMNS,
    MOST_CONDITIONS,
    MOST_STEPS,
    UNDERSTOOD,
    Budget,
    InvalidQuery,
    Row,
    parse,
)

COLUMNS = ("id", "name", "type", "properties")
TYPE = "microsoft.maintenance/scheduledevents"


def row(name: str, status: str = "Scheduled", kind: str = "Reboot", duration: int | None = -1, **more: object) -> Row:
    properties = {"EventStatus": status, "EventType": kind, "DurationInSeconds": duration, **more}
    return {"id": f"/x/{name}", "name": name, "type": TYPE, "properties": properties}


ROWS = [
    row("a", "Started", "Freeze", 9),
    row("b", "Scheduled", "Reboot", 600),
    row("c", "Completed", "Reboot", None),
    row("d", "Scheduled", "Redeploy", 10, Resources=["vm-1"]),
]


def asked(query: str) -> list[dict[str, object]]:
    made = parse(f"maintenanceresources {query}", COLUMNS)
    return [dict(zip(made.columns, made.cells(found), strict=True)) for found in made.run(ROWS)]


def names(query: str) -> str:
    return "".join(str(found["name"]) for found in asked(query))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", "abcd"),
        (f"| where type =~ '{TYPE.upper()}'", "abcd"),
        (f"| where type == '{TYPE.upper()}'", ""),
        (f'| where type == "{TYPE}"', "abcd"),
        ("| where properties.EventStatus == 'Scheduled'", "bd"),
        ("| where properties['EventStatus'] == 'Scheduled'", "bd"),
        ("| where properties.EventStatus == 'scheduled'", ""),
        ("| where properties.EventStatus =~ 'scheduled'", "bd"),
        ("| where properties.EventStatus != 'Scheduled'", "ac"),
        ("| where properties.EventStatus !~ 'scheduled'", "ac"),
        ("| where properties.EventType in ('Freeze', 'Redeploy')", "ad"),
        ("| where properties.EventType in~ ('freeze', 'REDEPLOY')", "ad"),
        ("| where properties.EventType !in ('Freeze', 'Redeploy')", "bc"),
        ("| where properties.EventType !in~ ('freeze')", "bcd"),
        ("| where properties.DurationInSeconds == 600", "b"),
        ("| where properties.DurationInSeconds == '600'", ""),
        ("| where tostring(properties.DurationInSeconds) == '600'", "b"),
        ("| where properties.DurationInSeconds == 9.0", "a"),
        ("| where properties.DurationInSeconds == -1", ""),
        ("| where properties.DurationInSeconds =~ 10", "d"),
        ("| where properties.DurationInSeconds == true", ""),
        ("| where properties.Nothing.At.All == 'x'", ""),
        ("| where properties.Nothing != 'x'", "abcd"),
        ("| where name == 'a' or name == 'b' and properties.EventType == 'Freeze'", "a"),
        ("| where (name == 'a' or name == 'b') and properties.EventType == 'Reboot'", "b"),
        ("| where name == 'a' | where name == 'b'", ""),
        (r"| where name == 'it\'s'", ""),
        ("| order by name", "dcba"),
        ("| order by name asc", "abcd"),
        ("| sort by properties.EventType asc, name desc", "acbd"),
        ("| order by properties.DurationInSeconds asc", "cadb"),
        ("| order by properties.DurationInSeconds desc", "bdac"),
        ("| limit 2", "ab"),
        ("| take 0", ""),
        ("| order by name | take 1", "d"),
        ("| order by name asc, name desc", "abcd"),
        ("| extend t = properties.EventType | where t == 'Freeze'", "a"),
        (
            "| extend name = properties.EventType, x = name | where name == 'Freeze' and x == 'a' | project name = x",
            "a",
        ),
        ("| project a = properties, name | where a.EventType == 'Freeze'", "a"),
        ("| project name, t = tostring(properties) | where t.EventType == 'Freeze'", ""),
        ("| project name, t = tostring(name) | where t == 'b' | order by t", "b"),
        ("| where properties == 'x' or properties.Resources in ('x')", ""),
        ("| where properties != 'x'", "abcd"),
        ("// all of them\n| where name == 'a' // one\n", "a"),
    ],
)
def test_rows_are_chosen_and_put_in_order(query: str, found: str) -> None:
    assert names(query) == found


def test_a_table_is_named_in_upper_or_lower_case() -> None:
    assert len(list(parse("MaintenanceResources", COLUMNS).run(ROWS))) == 4


def test_project_gives_only_the_columns_that_it_names() -> None:
    query = parse("maintenanceresources | project name, properties.EventStatus, kind = properties.EventType", COLUMNS)
    assert query.columns == ("name", "properties_EventStatus", "kind")
    assert list(query.cells(next(query.run(ROWS)))) == ["a", "Started", "Freeze"]


def test_extend_adds_columns_behind_those_that_are_there() -> None:
    query = parse("maintenanceresources | extend kind = properties.EventType, tostring(properties.Resources)", COLUMNS)
    assert query.columns == (*COLUMNS, "kind", "properties_Resources")
    assert list(query.cells(ROWS[3]))[4:] == ["Redeploy", '["vm-1"]']


def test_project_names_columns_as_they_are_called_there() -> None:
    """Also those that a project before it has renamed, and one that is called like a function."""
    assert asked("| where name == 'a' | project k = properties | project k.EventType, k['EventStatus']") == [
        {"k_EventType": "Freeze", "k_EventStatus": "Started"}
    ]
    assert asked("| take 1 | project tostring = name | project tostring") == [{"tostring": "a"}]


def _many(number: int, text: str, between: str = ", ") -> str:
    return between.join(text.format(n=n) for n in range(number))


@pytest.mark.parametrize(
    ("most", "query", "saying"),
    [
        (MOST_COLUMNS, lambda n: "| project " + _many(n, "c{n} = name"), "more than 64 columns"),
        (MOST_COLUMNS - 4, lambda n: "| extend " + _many(n, "c{n} = name"), "more than 64 columns"),
        (59, lambda n: "| extend c = name | extend " + _many(n, "c{n} = name"), "more than 64 columns"),
        (MOST_COLUMNS, lambda n: "| order by " + _many(n, "name"), "more than 64 columns"),
        (MOST_COLUMNS, lambda n: "| summarize count() by " + _many(n, "c{n} = name"), "more than 64 columns"),
        (MOST_STEPS, lambda n: "| limit 9" * n, "more than 20 steps"),
        (MOST_CONDITIONS, lambda n: "| where " + _many(n, "name == 'a'", " or "), "more than 100"),
        (MOST_CONDITIONS, lambda n: "| where " + _many(n, "(name == 'a')", " and "), "more than 100"),
        (MOST_CONDITIONS - 1, lambda n: "| where name == 1 | where " + _many(n, "name == 1", " or "), "more than 100"),
        (LONGEST_PATH, lambda n: "| where properties" + ".a" * (n - 1) + " == 1", "more than 8 names of a column"),
    ],
)
def test_a_query_is_bounded_in_steps_columns_and_comparisons(most: int, query: Callable[[int], str], saying: str):
    """S24: what it costs for each row follows from these; one more is refused."""
    asked(query(most))
    with pytest.raises(InvalidQuery) as refused:
        asked(query(most + 1))
    assert saying in refused.value.message


@pytest.mark.parametrize(
    "step", ["order by name", "summarize count() by name", "order by tostring(properties.Resources)"]
)
def test_order_and_groups_are_paid_from_a_budget(step: str) -> None:
    """S24: what is kept of rows until the last one has come is counted in bytes."""
    query = parse(f"maintenanceresources | {step}", COLUMNS)
    assert len(list(query.run(ROWS, Budget(900)))) == 4
    with pytest.raises(InvalidQuery, match="take more than"):
        list(query.run(ROWS, Budget(700)))
    long = [row("x" * 1000, Resources=["y" * 1000])]
    with pytest.raises(InvalidQuery, match="take more than"):
        list(query.run(long, Budget(400)))


def test_a_text_is_made_of_anything() -> None:
    (found,) = asked("| where name == 'd' | project who = tostring(properties.Resources), no = tostring(properties.X)")
    assert found == {"who": '["vm-1"]', "no": ""}


def test_rows_are_counted() -> None:
    assert asked("| where properties.EventType == 'Reboot' | count") == [{"Count": 2}]
    assert asked("| summarize count()") == [{"count_": 4}]
    assert asked("| where name == 'z' | summarize n = count()") == [{"n": 0}]


def test_rows_are_counted_by_what_they_say() -> None:
    by = "| summarize count() by tostring(properties.EventStatus)"
    assert asked(by) == [
        {"properties_EventStatus": "Started", "count_": 1},
        {"properties_EventStatus": "Scheduled", "count_": 2},
        {"properties_EventStatus": "Completed", "count_": 1},
    ]
    assert asked("| summarize n = count() by kind = properties.EventType, type | order by n | take 1") == [
        {"kind": "Reboot", "type": TYPE, "n": 2}
    ]
    assert [found["count_"] for found in asked("| summarize count() by properties.Resources")] == [3, 1]


WORDS = ["|", ",", "(", ")", "=", "==", "=~", "in", "!in", ".", "[", "]", "and", "or", "by", "asc", "tostring", "count"]
WORDS += [
    "where",
    "project",
    "order",
    "take",
    "summarize",
    "name",
    "properties",
    "'a'",
    "1",
    "-1",
    "true",
    "'",
    "\\",
    "~",
]


@given(st.lists(st.sampled_from(WORDS), max_size=12) | st.text(max_size=30).map(lambda text: [text]))
def test_whatever_is_asked_is_answered_or_refused(words: list[str]) -> None:
    try:
        asked("| " + " ".join(words))
    except InvalidQuery as refused:
        assert refused.message


@pytest.mark.parametrize(
    ("query", "saying"),
    [
        ("", "Where a table was expected there is the end of the query."),
        ("resources", "There is no table 'resources' here."),
        ("| count", "Where a table was expected there is '|'."),
        ("maintenanceresources count", "Where | or the end was expected there is 'count'."),
        ("maintenanceresources |", "Where an operator was expected there is the end"),
        ("maintenanceresources | join (x) on y", "The operator 'join' is not understood."),
        ("maintenanceresources | distinct name", "The operator 'distinct' is not understood."),
        ("maintenanceresources | where", "Where a column was expected there is the end"),
        ("maintenanceresources | where nmae == 'a'", "There is no column 'nmae' here; there are id, name"),
        ("maintenanceresources | where name contains 'a'", "The comparison 'contains' is not understood."),
        ("maintenanceresources | where name == name", "Where a value was expected there is 'name'."),
        ("maintenanceresources | where name in 'a'", "Where ( was expected there is \"'a'\"."),
        ("maintenanceresources | where (name == 'a'", "Where ) was expected there is the end"),
        ("maintenanceresources | where name == 'a", '"\'a" is not understood.'),
        ("maintenanceresources | where properties[EventId] == 'a'", "Where a text in quotes was expected"),
        ("maintenanceresources | where properties. == 'a'", "Where a name was expected there is '=='."),
        ("maintenanceresources | where tostring(tostring(name)) == 'a'", "There is no column 'tostring' here"),
        ("maintenanceresources | where name > 3", "'> 3' is not understood."),
        ("maintenanceresources | limit many", "Where a value was expected there is 'many'."),
        ("maintenanceresources | limit -1", "-1 is not a number of rows."),
        ("maintenanceresources | limit 'a'", "'a' is not a number of rows."),
        ("maintenanceresources | take 9223372036854775808", "9223372036854775808"),
        ("maintenanceresources | take " + "9" * 5000, "999"),
        ("maintenanceresources | take ١", "١"),
        ("maintenanceresources | order name", "Where by was expected there is 'name'."),
        ("maintenanceresources | project name | where id == 'a'", "There is no column 'id' here; there are name."),
        ("maintenanceresources | project name, name", "There would be two columns 'name'."),
        ("maintenanceresources | count | where name == 'a'", "There is no column 'name' here; there are Count."),
        ("maintenanceresources | summarize sum(x)", "Where count was expected there is 'sum'."),
        ("maintenanceresources | summarize name = count() by name", "There would be two columns 'name'."),
        ("maintenanceresources | where " + "(" * (DEEPEST + 1), "more than 50 brackets"),
        ("maintenanceresources" + " " * LONGEST, "The query has 10020 characters; 10000 are the most."),
    ],
)
def test_what_is_not_understood_is_said_together_with_what_is(query: str, saying: str) -> None:
    with pytest.raises(InvalidQuery) as refused:
        parse(query, COLUMNS)
    assert saying in refused.value.message
    assert refused.value.hint == UNDERSTOOD
