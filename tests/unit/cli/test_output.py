"""The forms in which data is printed."""

from collections.abc import Iterator

import pytest

from duenotice.cli.output import NEVER, WRITERS, fields_of, yaml_lines
from duenotice.cli.views import VMS
from tests.unit.cli.values import event


def test_yaml_is_blocks_with_scalars_as_in_json() -> None:
    value = {"id": "A", "vms": ["a", "b: c"], "none": None, "empty": [], "in": {"under-way": 1}, "steps": [{"n": 1}]}
    assert yaml_lines(value) == [
        'id: "A"',
        "vms:",
        '  - "a"',
        '  - "b: c"',
        "none: null",
        "empty: []",
        "in:",
        '  "under-way": 1',
        "steps:",
        "  - n: 1",
    ]


@pytest.mark.parametrize(("output", "line"), [("jsonl", '{"name": "vm-0"}\n'), ("name", "vm-0\n")])
def test_lines_are_printed_as_their_items_come(output: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is collected first: the first of a hundred thousand VMs is there before the second is asked for."""
    seen = []

    def vms() -> Iterator[dict[str, str]]:
        yield {"name": "vm-0"}
        seen.append(capsys.readouterr().out)
        yield {"name": "vm-1"}

    WRITERS[output](vms(), VMS, lambda: NEVER)
    assert seen == [line]


def test_values_of_the_service_are_printed_as_json_has_them() -> None:
    """Times are texts, and what is a list in JSON is a list in YAML."""
    fields = fields_of(event(resources=("web-0", "web-5")))
    assert (fields["not_before"], fields["resources"]) == ("2026-01-01T12:15:00Z", ["web-0", "web-5"])
    assert yaml_lines(fields)[4:7] == ["resources:", '  - "web-0"', '  - "web-5"']
