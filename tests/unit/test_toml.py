"""TOML files: where a key is, and tables that know their place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice import toml
from duenotice.errors import Misconfigured
from duenotice.toml import LONGEST, Path, Table, TomlFile, line_of, misfit

TEXT = '''\
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
date = 1979-05-27 07:32:00 # two pieces
text = """
[[rules]]
no = "key"
"""
[[sets]]
name = "web"
vms = [
  { name = "web-0", tags = { a = "]", b = "2" } },  # {
  { name = "web-1",
    adress = "x" },
]
[sets.more]
key = 1
[[sets.parts]]
[[sets.parts]]
key = 2
[[sets]]
[[sets.parts]]
key = 3
'''
NO_TOML = ("", "=", "[", "[[", "a", "a =", "a = [", "a = {", "a = [{", "]", '"', "a = 1979-05-27 07")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("a",), 3),
        (("a", "b", "c"), 4),
        (("a", "list", 1), 7),
        (("a", "after"), 9),
        (("rules", 0, "types"), 11),
        (("rules", 1), 12),
        (("rules", 1, "types", 0), 13),
        (("handlers", "with.dot", "kind"), 15),
        (("handlers", "with.dot", "inline", "deep"), 16),
        (("handlers", "with.dot", "date"), 17),
        (("handlers", "with.dot", "text"), 18),
        (("sets", 0, "name"), 23),
        (("sets", 0, "vms", 0, "tags", "b"), 25),
        (("sets", 0, "vms", 1), 26),
        (("sets", 0, "vms", 1, "adress"), 27),
        (("sets", 0, "vms", 1, "unheard-of"), 26),
        (("sets", 0, "more", "key"), 30),
        (("sets", 0, "parts", 1, "key"), 33),
        (("sets", 1, "parts", 0, "key"), 36),
        (("nowhere",), 1),
    ],
)
def test_the_line_of_a_key(path: Path, line: int):
    """Its own, or that of the nearest thing around it."""
    assert line_of(TEXT, path) == line


@given(st.text(alphabet="[]{}=,\"'#\n\\ a.1"))
def test_no_text_is_too_odd(text: str):
    """Whatever it is, there is an end to it."""
    assert line_of(text, ("a", 0, "a")) >= 1


@pytest.mark.parametrize("text", NO_TOML)
def test_what_is_no_toml_has_a_line_too(text: str):
    """A guess is allowed, a crash is not."""
    assert line_of(text, ("b",)) == 1


def test_a_text_that_is_too_long_is_not_looked_through():
    """It would take longer than anybody waits."""
    assert line_of("\n" * LONGEST + "a = 1", ("a",)) == 1


SCENARIO = '''name = "x"
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
    ("path", "line"),
    [
        (("name",), 1),
        (("cast", "vm"), 8),
        (("cast", "vm", "is"), 8),
        (("cast", "peer", "is"), 11),
        (("steps", 0), 13),
        (("steps", 1, "within"), 18),
        (("steps", 1, "unheard-of"), 16),
        (("steps", 2), 13),
        (("nowhere",), 1),
    ],
)
def test_a_place_has_a_line_or_that_of_what_is_around_it(path: Path, line: int) -> None:
    """Text in quotes that only looks like a table is none."""
    assert line_of(SCENARIO, path) == line


@pytest.mark.parametrize("key", ["a", '"a"', "'.'"])
@pytest.mark.parametrize("form", ["{}=1", "[{}]", "x = {{ {} = 1 }}"])
def test_a_key_with_very_many_parts_is_refused_at_once(key: str, form: str) -> None:
    """tomllib would think about it for hours, and VMs would wait (S26)."""
    text = "ok = 1\n" + form.format(".".join([key] * 200_000))
    with pytest.raises(Misconfigured, match=r"^my.toml, line 2: .* a key over 100 parts"):
        TomlFile(text, "my.toml").read()


@pytest.mark.parametrize("text", ["a" * 3_000_000, "x=[" + "[" * 3_000_000])
def test_one_very_long_line_keeps_no_other_thread_waiting(text: str) -> None:
    """It is looked through in pieces: between two of them others get their turn (S26)."""
    with pytest.raises(Misconfigured, match=r"^my.toml"):
        TomlFile(text, "my.toml").read()
    assert max(map(len, toml._pieces(text, 0, len(text)))) <= 200_000


@pytest.mark.parametrize("before", ["", "x\n" * 49_950, "\n" * 99_950, "y" * 99_950 + "\n", "z" * 300_000 + "\n"])
@pytest.mark.parametrize("after", ["", "\n", "\na = 1\n"])
def test_a_line_is_looked_through_wherever_in_the_file_it_stands(before: str, after: str) -> None:
    """The file is read in pieces, and the line may lie in two of them; its number counts all lines before it."""
    text = before.replace("x", "# x").replace("y", "#").replace("z", "#") + "a = 0x" + "f" * 5000 + after
    with pytest.raises(Misconfigured, match=rf"^my.toml, line {text[: text.index('0x')].count(LINE) + 1}: a number"):
        TomlFile(text, "my.toml").read()


LINE = "\n"


def test_a_number_that_python_does_not_print_is_refused() -> None:
    """Otherwise the message about it could not be made."""
    with pytest.raises(Misconfigured, match=r"^my.toml, line 2: a number has over 1000 digits"):
        TomlFile("\na = 0x" + "f" * 5000, "my.toml").read()


def test_long_lines_and_texts_with_dots_are_fine() -> None:
    vms = [{"name": f"vm-{number}", "address": f"10.0.0.{number}"} for number in range(200)]
    text = ", ".join(f'{{ name = "{vm["name"]}", address = "{vm["address"]}" }}' for vm in vms)
    assert TomlFile(f"vms = [{text}]\nx = '{'.' * 300}'\ny.z = 1 # {'. ' * 300}", "my.toml").read() == {
        "vms": vms,
        "x": "." * 300,
        "y": {"z": 1},
    }


@pytest.mark.parametrize(
    "long",
    [
        f"# {'x ' * 100_000}",
        f"a = '{'x ' * 100_000}'",
        f'a = "{"x " * 100_000}"',
        f"a = '''{LINE.join('x' * 100_000)}'''",
        f'a = """{LINE.join("x" * 100_000)}"""',
        "a = '''",
    ],
)
def test_in_a_large_file_no_comment_or_text_is_so_long_that_other_threads_wait_for_its_end(
    monkeypatch: pytest.MonkeyPatch, long: str
) -> None:
    """tomllib looks at each in one go: 100 MB of one comment kept all polls waiting for a second (S26)."""
    monkeypatch.setattr(toml, "LONGEST", 0)
    with pytest.raises(
        Misconfigured, match=r"^my.toml, line 2: a comment or a text has no end, or has more than 100,000"
    ):
        TomlFile(f"b = 1\n{long}\n", "my.toml").read()


ODD = (
    r"""
o1 = 'it # is'
o2 = "\\\"# '"
# "
o3 = '''x
'y''''
"""
    + 'o4 = """x\\"""""\n'
)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 100_000])
def test_a_large_file_is_read_like_a_small_one(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """Whatever quotes stand in its texts and comments, and with the line ends of Windows."""
    text = ODD.replace("\n", "\r\n")
    small = TomlFile(text, "my.toml").read()
    monkeypatch.setattr(toml, "LONGEST", 0)
    assert TomlFile(text, "my.toml").read() == small
    monkeypatch.setattr(toml, "_PIECE", piece)
    assert toml._with_our_line_ends(text) == text.replace("\r\n", "\n")


def test_steps_in_one_list_have_their_own_lines() -> None:
    assert line_of('name = "x"\n\nsteps = [\n  { wait = "1m" },\n]', ("steps", 0, "wait")) == 4


def test_a_table_names_file_line_and_place() -> None:
    """Whatever is wrong with it."""
    file = TomlFile("a = 1\n[[list]]\nb = 2\nother = 3\n", "my.toml")
    top = Table(file, file.read())
    with pytest.raises(Misconfigured, match=r"^my.toml, line 1: a must be a text\."):
        top.take("a", str)
    (table,) = top.tables("list")
    with pytest.raises(Misconfigured, match=r"^my.toml, line 3: list\[1\] b = 2 is out of bounds\."):
        table.within("b", 0, 1)
    with pytest.raises(Misconfigured, match=r"^my.toml, line 2: list\[1\] has no 'c'\."):
        table.take("c", str)
    with pytest.raises(Misconfigured, match=r"^my.toml, line 4: list\[1\] has an unknown key 'other'\."):
        table.done()


@pytest.mark.parametrize(
    ("said", "path", "unknown"),
    [
        ("Expected `int`, got `str` - at `$.rules[0].types[2]`", ("rules", 0, "types", 2), ""),
        ("Expected `str`, got `int` - at `$.peers.addresses[...]`", ("peers", "addresses", 0), ""),
        ("Object contains unknown field `typ` - at `$.rules[1]`", ("rules", 1, "typ"), "typ"),
        ("Object contains unknown field `aproval`", ("aproval",), "aproval"),
    ],
)
def test_what_msgspec_says_becomes_a_place(said: str, path: Path, unknown: str) -> None:
    found = misfit(ValueError(said))
    assert (found.path, found.unknown) == (path, unknown)
