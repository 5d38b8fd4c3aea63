"""Two trees are compared by what they answer, store and do: renames are left out, and one changed line is noticed."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from duenotice.http.fetch import HttpAnswer
from duenotice.operator_api.app import OperatorApi
from duenotice.store.codec import Row
from simulator import ending, sweep
from simulator.digests import WORLDS, Told
from simulator.renames import Rename, Renames, read
from simulator.runs import run
from simulator.transcripts import Entry, Recording, Transcripts
from simulator.world import Shape
from tools import compare

ROOT = Path(__file__).parents[2]
NODE, AGENT = "short/2", "changing/3"
"""Two worlds that are over soon."""
SMALL = Shape(nodes=2, vms=3, seconds=120, actions=8, lease=60.0, agents=1)

Change = tuple[str, str]
"""Some text of our sources, in whatever files it stands, and what it becomes."""
Tree = Callable[..., compare.Side]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """Makes a copy of our sources with some changes, and with a table of renames."""

    def made(*changes: Change, table: str = "") -> compare.Side:
        folder = tmp_path_factory.mktemp("tree")
        for part in ("src", "simulator"):
            shutil.copytree(ROOT / part, folder / part)
        for old, new in changes:
            files = [file for file in (folder / "src").rglob("*.py") if old in file.read_text()]
            assert files, f"our sources do not have {old!r} any more: change this test"
            for file in files:
                file.write_text(file.read_text().replace(old, new))
        (folder / compare.TABLE).parent.mkdir()
        (folder / compare.TABLE).write_text(table)
        return compare.side("a copy", folder)

    return made


@pytest.fixture(scope="module")
def sound(tree: Tree) -> compare.Side:
    """Our sources as they are."""
    return tree()


@pytest.fixture(scope="module")
def known(sound: compare.Side) -> dict[str, Told]:
    """What comes of both worlds with our sources as they are."""
    return played(sound, NODE, AGENT)


def played(side: compare.Side, *worlds: str) -> dict[str, Told]:
    """What comes of some worlds, through the table of renames that this side has."""
    return {world.told.world: world.told for world in compare.run(side, worlds, side.folder / compare.TABLE)}


def differing(old: dict[str, Told], new: dict[str, Told]) -> set[str]:
    """The digests that differ in any world that was played."""
    return {name for world, told in new.items() for name in compare.differing(old[world], told)}


RENAMED: tuple[Change, ...] = (
    ("RequestAnswered", "AnswerKept"),
    ("    request_digest: str\n    until: datetime\n", "    digest: str\n    until: datetime\n"),
    ("change.request_digest", "change.digest"),
    ("known.request_digest", "known.digest"),
    ("RECORDS = Codec(Record, 13, oldest=13)", "RECORDS = Codec(Record, 14, oldest=14)"),
)
"""A class and a field of a stored record get other names, and the format of records another number."""
FIELD = Rename("field", "request_digest", "digest", "record/transition:request-answered")
FORMAT = Rename("format", 13, 14, "record")


def table(*lines: Rename) -> str:
    """The text of a table of renames."""
    fields = [[f"{key} = {value!r}" for key, value in line._asdict().items()] for line in lines]
    return "\n".join("\n".join(["[[rename]]", *each]) for each in fields)


# --- two trees ---


def test_a_tree_is_equal_to_itself_under_two_orders_of_its_sets(sound: compare.Side, known: dict[str, Told]) -> None:
    assert not differing(known, played(sound._replace(hash_seed="7"), NODE, AGENT))


def test_a_renamed_class_and_field_of_a_record_are_equal_if_the_table_has_them(
    sound: compare.Side, known: dict[str, Told], tree: Tree
) -> None:
    """The table has a line for the field, and one for the number of the format; a class has no name in a journal."""
    new = tree(*RENAMED, table=table(FIELD, FORMAT))
    ((first, second),) = compare.play(sound, new, [NODE], 2)
    assert not compare.differing(first, second)
    (new.folder / compare.TABLE).unlink()
    assert differing(known, played(new, NODE)) == {"stored"}


def test_another_rule_is_noticed_in_what_is_answered_and_stored(known: dict[str, Told], tree: Tree) -> None:
    new = tree(("EventType.FREEZE: 15 * 60,", "EventType.FREEZE: 16 * 60,"))
    assert {"answered", "stored"} <= differing(known, played(new, NODE))


def test_another_codec_is_noticed_in_what_is_stored_and_nowhere_else(known: dict[str, Told], tree: Tree) -> None:
    """Keys come in another order; any JSON reader takes both for the same."""
    old = "        self._encode = encode\n"
    other = '        self._encode = msgspec.json.Encoder(order="sorted").encode\n'
    new = tree((old, other))
    assert differing(known, played(new, NODE)) == {"stored"}


def test_another_step_of_an_agent_is_noticed_in_what_agents_do_and_its_first_entry_is_shown(
    sound: compare.Side, tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    """It keeps four seconds of the notice for itself, not two."""
    new = tree(("RESERVE = 2.0", "RESERVE = 4.0"))
    assert compare.main([str(sound.folder), str(new.folder), "--world", AGENT]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [AGENT, "differs:", "agents"]
    assert [line.split()[:2] for line in lines[1:4]] == [["answered", "equal"], ["stored", "equal"], ["agents", "1"]]
    assert "entry" in lines[4]
    assert lines[5] != lines[6]


# --- commits ---


def test_a_commit_that_cannot_print_digests_is_refused_and_its_worktree_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "--quiet", "--initial-branch", "old"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "nothing"], check=True)
    monkeypatch.setattr(compare, "ROOT", tmp_path)
    assert compare.main(["old", str(ROOT)]) == 2
    assert capsys.readouterr().err.startswith("old has no simulator/digests.py")
    assert compare.main(["no-such-commit", str(ROOT)]) == 2
    assert "no-such-commit is neither a commit" in capsys.readouterr().err
    told = subprocess.run([*git, "worktree", "list"], check=True, capture_output=True, text=True).stdout
    assert len(told.splitlines()) == 1


# --- the transcripts ---


def stored(payload: bytes, *lines: Rename, position: int = 1, format: int = 13, crc: int | None = None) -> str:
    """The digest of one stored row."""
    sound = crc32(payload, crc32(b"%d %d" % (position, format)))
    transcripts = Transcripts(lambda: 0.0, Recording(Renames(lines)))
    transcripts.rows("record", [Row(position, format, sound if crc is None else crc, payload)], 0.0)
    return transcripts.digests.stored


OLD, NEW = b'{"a":{"change":"b","n":1,"s":"c"}}', b'{"a":{"change":"b","m":1,"s":"c"}}'


@pytest.mark.parametrize(
    ("lines", "equal"),
    [
        ([Rename("field", "n", "m")], True),
        ([Rename("field", "n", "m", "record/a:b")], True),
        ([Rename("field", "n", "l"), Rename("field", "l", "m")], True),
        ([Rename("field", "n", "m", "record")], False),
        ([Rename("field", "n", "m", "answer/a")], False),
        ([Rename("field", "m", "n", "snapshot/*")], False),
        ([Rename("tag", "n", "m")], False),
        ([], False),
    ],
)
def test_a_renamed_field_is_equal_where_the_table_says_so(lines: list[Rename], equal: bool) -> None:
    assert (stored(OLD, *lines) == stored(NEW, *lines)) is equal


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (b'{"a":{"change":"b"}}', b'{"a":{"change":"c"}}', Rename("tag", "b", "c", "record/a/change")),
        (b'{"a":["b","d"]}', b'{"a":["c","d"]}', Rename("tag", "b", "c", "record/a")),
        (b'{"a":"{\\"b\\":1}"}', b'{"a":"{\\"c\\":1}"}', Rename("field", "b", "c", "record/a")),
        (b'{"a":"eyJiIjoxfQ=="}', b'{"a":"eyJjIjoxfQ=="}', Rename("field", "b", "c", "record/a")),
    ],
    ids=["the kind of a record", "a word in a list", "JSON in a text", "JSON in base64"],
)
def test_names_are_found_wherever_they_are_stored(old: bytes, new: bytes, line: Rename) -> None:
    assert stored(old) != stored(new)
    assert stored(old, line) == stored(new, line)


@pytest.mark.parametrize(
    "other",
    [
        b'{"a":{"n":1,"change":"b","s":"c"}}',
        b'{"a":{"change":"b","n":1.0,"s":"c"}}',
        b'{"a":{"change":"b","n":"1","s":"c"}}',
        b'{"a": {"change": "b", "n": 1, "s": "c"}}',
        b'{"a":{"change":"b","n":1,"s":"\\u0063"}}',
        b"\x81\xa1a\x83\xa6change\xa1b\xa1n\x01\xa1s\xa1c",
    ],
    ids=["order of keys", "kind of number", "text for a number", "spaces", "another escape", "MessagePack"],
)
def test_another_codec_is_another_digest(other: bytes) -> None:
    """Also when names are replaced, for which rows are read and written again."""
    for lines in ((), (Rename("field", "n", "m"),)):
        assert stored(OLD, *lines) != stored(other, *lines)


def test_another_checksum_and_another_format_are_another_digest() -> None:
    assert len({stored(OLD), stored(OLD, crc=crc32(OLD)), stored(OLD, format=14)}) == 3
    assert stored(OLD, FORMAT) == stored(OLD, FORMAT, format=14)


def answered(body: bytes, *lines: Rename, length: int | None = None) -> str:
    """The digest of one answer of the operator's API."""
    transcripts = Transcripts(lambda: 0.0, Recording(Renames(lines)))
    headers = {"content-length": str(len(body) if length is None else length)}
    transcripts.operator(("a", "answers", "GET", "/v1/vms"), HttpAnswer(200, body, headers))
    return transcripts.digests.answered


def test_a_renamed_field_of_an_answer_is_equal_only_if_a_line_is_about_answers() -> None:
    """The other length of such an answer is no difference, a wrong one is."""
    old, new = b'{"items":[{"lane":1}]}', b'{"items":[{"group":1}]}'
    line = Rename("field", "lane", "group", "answer/items")
    assert answered(old, line) == answered(new, line) != answered(new, line, length=7)
    assert answered(old, line._replace(where="*")) != answered(new, line._replace(where="*"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[renames]]\n", "is not known here"),
        ('[[rename]]\nkind = "class"\nold = "a"\nnew = "b"\n', "line 1 needs a kind"),
        ('[[rename]]\nkind = "format"\nold = "a"\nnew = "b"\n', "line 1: old and new"),
        (table(Rename("field", "a", "b"), Rename("field", "b", "a")), "which is newer"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "renames.toml").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        read(tmp_path / "renames.toml")


def test_a_table_that_gives_two_fields_one_name_says_so() -> None:
    renames = Renames([Rename("field", "n", "s")])
    renames.mapped("record", OLD)
    assert "two fields one name" in renames.problems[0]


def test_our_table_of_renames_can_be_read() -> None:
    assert read(ROOT / compare.TABLE).problems == []


# --- the sweep ---


def test_the_sweep_asks_all_that_can_be_read_of_the_operators_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for what is left out with a reason."""
    apis: list[OperatorApi] = []
    make = OperatorApi.__init__

    def noted(api: OperatorApi, *more: object, **others: object) -> None:
        make(api, *more, **others)  # type: ignore[arg-type]
        apis.append(api)

    monkeypatch.setattr(OperatorApi, "__init__", noted)
    asked = {entry.about.split()[5].partition("?")[0] for entry in entries(NODE) if " sweep GET " in entry.about}
    wanted = {call.path for call in apis[0].calls if call.method == "GET"}
    paths = {path for path in wanted if any(_fits(path, target) for target in asked)}
    assert wanted - paths == set(sweep.LEFT_OUT)


def _fits(path: str, target: str) -> bool:
    parts, others = path.split("/"), target.split("/")
    return len(parts) == len(others) and all(a == b or a[:1] == "{" for a, b in zip(parts, others, strict=True))


def test_a_world_is_the_same_without_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two nodes: it throws no dice of the store, and takes no time."""

    def lived() -> list[Entry]:
        kept = list[Entry]()
        assert not run(7, shape=SMALL, recording=Recording(kept=kept)).violations
        return [entry for entry in kept if " sweep " not in entry.about]

    swept = lived()

    async def nothing(*_: object, **__: object) -> None:
        """Nobody asks."""

    monkeypatch.setattr(ending, "sweep", nothing)
    assert swept == lived()


def entries(world: str) -> list[Entry]:
    """All entries of the transcripts of a world."""
    kept = list[Entry]()
    assert not WORLDS[world](Recording(kept=kept)).violations
    return kept


def test_there_are_forty_worlds() -> None:
    assert len(WORLDS) == 40
