"""Where a key stands in a TOML text."""

import pytest

from duenotice.agent.toml_lines import Path, line_of

TEXT = """\
# first
top = 1
[a]
b.c = 2
list = [
  "[not.a.table]",
  "x = 1",
]
after = 3
[[rules]]
types = []
[[rules]]  # second
types = ["x"]
[handlers."with.dot"]
kind = 'k'
inline = { deep = 1 }
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("a",), 3),
        (("a", "b", "c"), 4),
        (("a", "list", 1), 5),
        (("a", "after"), 9),
        (("rules", 0, "types"), 11),
        (("rules", 1), 12),
        (("rules", 1, "types", 0), 13),
        (("handlers", "with.dot", "kind"), 15),
        (("handlers", "with.dot", "inline", "deep"), 16),
        (("nowhere",), 1),
    ],
)
def test_the_line_of_a_key(path: Path, line: int):
    """Its own, or that of the nearest thing around it."""
    assert line_of(TEXT, path) == line
