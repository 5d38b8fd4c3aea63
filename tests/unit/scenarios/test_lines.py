"""Where things stand in a TOML file."""

import pytest

from duenotice.scenarios.lines import Lines

TEXT = '''name = "x"
about = """
[[steps]]
wait = "no step"
"""

[cast]
vm = { is = "vm" }

[cast.peer]
is = "vm"

[[steps]]
listen = "vm"

[[steps]]
expect = "gone"
  within = "5m"
'''


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("name", 1),
        ("cast.vm", 8),
        ("cast.vm.is", 8),
        ("cast.peer.is", 11),
        ("steps[1]", 13),
        ("steps[2].within", 18),
        ("steps[2].unheard-of", 16),
        ("steps[3]", 1),
        ("nowhere", 1),
    ],
)
def test_a_place_has_a_line_or_that_of_what_is_around_it(place: str, line: int) -> None:
    """Text in quotes that only looks like a table is none."""
    assert Lines(TEXT).of(place) == line


def test_steps_in_one_list_are_found_by_their_list() -> None:
    """Inline tables have no line that we know."""
    assert Lines('name = "x"\n\nsteps = [\n  { wait = "1m" },\n]').of("steps[1].wait") == 3
