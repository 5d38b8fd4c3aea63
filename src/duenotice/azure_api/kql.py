"""The part of Resource Graph's query language that is understood: a text becomes steps over rows (M12). Pure.

Rows come and go one by one, so that a thread that works on very many lets the others run (S26). What is kept of them
until the last one has come, their order or their groups, is paid from the `Budget` of the query (S24). No step makes
another row of a row: which columns are shown, and under which names, is said of the rows that are left in the end.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from duenotice.domain.bulk import PIECE
from duenotice.errors import Malformed


class Row(Protocol):
    """What has columns: an event, or what a step has counted."""

    def get(self, name: str, /) -> object:
        """The value of a column; None if there is none."""


Step = Callable[[Iterator[Row], "Budget"], Iterator[Row]]
Predicate = Callable[[Row], bool]
Key = tuple[tuple[int, float, str], ...]

MOST_KEPT = 48 * 1024 * 1024
"""Bytes that one query may keep of its rows: the order of 200,000 events by a short column."""
_ROW_BYTES = 200
"""What is kept of a row, beside the texts of it."""
_RANKED = 256
"""Letters of a text that count for the order of rows."""

_LET_GO = 500
"""Rows that are let go in one go: some milliseconds."""


class InvalidQuery(Malformed):
    """A query that is not understood, or is too large."""


class Budget:
    """The bytes that one query may keep of its rows."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = self._left = most

    def keep(self, values: Sequence[object]) -> None:
        """Pay for these values of one row."""
        self._left -= _ROW_BYTES + sum(len(value) for value in values if isinstance(value, str))
        if self._left < 0:
            raise InvalidQuery(
                f"Order and groups of these rows take more than {self._most // (1024 * 1024)} MiB.",
                hint="Leave rows out with where, or name fewer and shorter columns.",
            )


class GraphColumn(NamedTuple):
    """Where a value is: `properties.EventStatus` is a path of two; what is not there is None."""

    path: tuple[str, ...]
    as_text: bool = False

    def of(self, row: Row) -> object:
        """The value in a row."""
        found = row.get(self.path[0])
        for name in self.path[1:]:
            found = found.get(name) if isinstance(found, Mapping) else None
        return _text(found) if self.as_text else found

    def below(self, names: tuple[str, ...]) -> "GraphColumn":
        """A column inside this one; a text has nothing inside."""
        if names and self.as_text:
            return NOWHERE
        return self._replace(path=self.path + names)


NOWHERE = GraphColumn(("",))
"""A column that no row has."""


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


# Comparing


def among(column: GraphColumn, values: Sequence[object], any_case: bool = False) -> Predicate:
    """Whether the value of a column is one of these; with `any_case` upper and lower case do not count.

    A number never equals a text, nor true and false; a list or an object equals none of them.
    """
    wanted = {_comparable(value, any_case) for value in values}

    def holds(row: Row) -> bool:
        found = column.of(row)
        return isinstance(found, _SIMPLE) and _comparable(found, any_case) in wanted

    return holds


_SIMPLE = (str, bool, int, float)


def _comparable(value: object, any_case: bool) -> tuple[bool, object]:
    return isinstance(value, bool), value.lower() if any_case and isinstance(value, str) else value


def none_of(condition: Predicate) -> Predicate:
    """Whether it does not hold: so it is also of what is not there at all."""
    return lambda row: not condition(row)


def any_of(conditions: Sequence[Predicate]) -> Predicate:
    """Whether one of them holds."""
    return conditions[0] if len(conditions) == 1 else lambda row: any(holds(row) for holds in conditions)


def all_of(conditions: Sequence[Predicate]) -> Predicate:
    """Whether each of them holds."""
    return conditions[0] if len(conditions) == 1 else lambda row: all(holds(row) for holds in conditions)


# Steps


def where(condition: Predicate) -> Step:
    """Those for which it holds."""
    return lambda rows, _: filter(condition, rows)


def limit(number: int) -> Step:
    """The first ones."""
    return lambda rows, _: islice(rows, number)


def count(rows: Iterator[Row], _: Budget) -> Iterator[Row]:
    """How many there are, as one row."""
    yield {"Count": sum(1 for _ in rows)}


def summarize(by: Sequence[tuple[str, GraphColumn]], name: str) -> Step:
    """How many there are for each value of these columns, in the order in which they are met."""

    def step(rows: Iterator[Row], budget: Budget) -> Iterator[Row]:
        counted: dict[tuple[object, ...], int] = {} if by else {(): 0}
        for row in rows:
            values = tuple(_plain(column.of(row)) for _, column in by)
            if values not in counted:
                budget.keep(values)
                counted[values] = 0
            counted[values] += 1
        for values, number in counted.items():
            yield {**dict(zip((each for each, _ in by), values, strict=True)), name: number}

    return step


def _plain(value: object) -> object:
    """A value that can be counted: a list or an object is counted by its text."""
    return value if value is None or isinstance(value, str | int | float) else _text(value)


def order(columns: Sequence[tuple[GraphColumn, bool]]) -> Step:
    """By these columns, each ascending or not; what is not there is less than all that is."""
    by = dict[GraphColumn, bool]()
    for column, ascending in columns:
        by.setdefault(column, ascending)  # named again it makes no difference

    def step(rows: Iterator[Row], budget: Budget) -> Iterator[Row]:
        def kept(number: int, row: Row) -> _Kept:
            ranks = [(_rank(column.of(row)), ascending) for column, ascending in by.items()]
            budget.keep([rank[2] for rank, _ in ranks])
            if isinstance(row, Forgetful):
                row.forget()
            return [rank if ascending else _Reversed(rank) for rank, ascending in ranks], number, row

        return _sorted(kept(number, row) for number, row in enumerate(rows))

    return step


class Forgetful:
    """A row that can make its values again: a row that waits for its turn keeps none of them."""

    __slots__ = ()

    def forget(self) -> None:
        """Keep none."""


_Kept = tuple[list[object], int, Row]
"""What counts for the order, the number of a row, which no other has, and the row."""


def _sorted(rows: Iterator[_Kept]) -> Iterator[Row]:
    """In pieces, as `in_order` does it; what nobody takes is let go in pieces too."""
    pieces = list(iter(lambda: sorted(islice(rows, PIECE)), []))
    try:
        for _, _, row in heapq.merge(*pieces):
            yield row
    finally:
        for piece in pieces:
            while piece:
                del piece[-_LET_GO:]


def _rank(value: object) -> tuple[int, float, str]:
    """Nothing first, then numbers, then texts."""
    if value is None:
        return 0, 0, ""
    if isinstance(value, int | float):
        return 1, value, ""
    return 2, 0, _text(value)[:_RANKED]


class _Reversed(NamedTuple):
    """Compares the other way round."""

    rank: tuple[int, float, str]

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, _Reversed)
        return self.rank > other.rank


# Tables


def column_type(value: object) -> str:
    """What a table says of a column with this value; one without values is of texts."""
    for kind, told in ((str, "string"), (bool, "boolean"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return told
    return "string" if value is None else "object"


TABLE = "maintenanceresources"
UNDERSTOOD = (
    f"Understood is: {TABLE} | where COLUMN ==, =~, != or !~ VALUE, COLUMN in, in~, !in or !in~ (VALUE, …), with and, "
    "or and ( ) | extend [NAME =] COLUMN, … | project [NAME =] COLUMN, … | order by COLUMN [asc or desc], … "
    "| limit N or take N | count | summarize [NAME =] count() [by COLUMN, …]. "
    "A COLUMN may be properties.NAME or tostring(COLUMN)."
)
LONGEST = 10_000
"""Characters of a query."""
DEEPEST = 50
"""Brackets in brackets."""
MOST_STEPS = 20
MOST_COLUMNS = 64
"""Columns that one step names, and that rows have after `extend`."""
MOST_CONDITIONS = 100
"""Comparisons of one query; each may look at each row. Values in brackets behind `in` are one comparison."""
LONGEST_PATH = 8
"""Names of a column: `properties.NAME` are two."""
_SHOWN = 20
"""Columns that a message names."""

T = TypeVar("T")
_TOKEN = re.compile(
    r"(?P<text>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<sign>!in~|!in\b|in~|=~|!~|==|!=|[|,()=.\[\]])"
    r"|(?P<number>-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?![0-9]))"  # no count of rows is longer, and no value of ours
    r"|(?P<word>[A-Za-z_]\w*)"
)
_BLANK = re.compile(r"(?:\s|//[^\n]*)*")


class GraphQuery(NamedTuple):
    """What is done with the rows, one after the other, and the columns of those that are left."""

    steps: tuple[Step, ...]
    named: dict[str, GraphColumn]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that are left."""
        return tuple(self.named)

    def run(self, rows: Iterable[Row], budget: Budget | None = None) -> Iterator[Row]:
        """The rows that the query gives; `cells` has what it shows of each."""
        found, budget = iter(rows), budget or Budget()
        for step in self.steps:
            found = step(found, budget)
        return found

    def cells(self, row: Row) -> Iterator[object]:
        """The values of the columns that are left, one by one: together they may be many times the row."""
        return (column.of(row) for column in self.named.values())


def parse(text: str, columns: tuple[str, ...]) -> GraphQuery:
    """The query in a text on rows with these columns; `InvalidQuery` says what is understood."""
    return _Parser(text, columns).query()


class _Token(NamedTuple):
    kind: str
    text: str


def _tokens(text: str) -> Iterator[_Token]:
    if len(text) > LONGEST:
        raise _invalid(f"The query has {len(text)} characters; {LONGEST} are the most.")
    at = _after_blank(text, 0)
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _invalid(f"{text[at : at + 20]!r} is not understood.")
        yield _Token(found.lastgroup or "", found[0])
        at = _after_blank(text, found.end())


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


_END = _Token("end", "")
_WITH_ONE = ("==", "=~", "!=", "!~")
_WITH_MANY = ("in", "in~", "!in", "!in~")


class _Parser:
    """Reads one query from its beginning to its end."""

    def __init__(self, text: str, columns: tuple[str, ...]) -> None:
        self._tokens, self._at, self._depth, self._conditions = [*_tokens(text), _END], 0, 0, 0
        self._columns = {name: GraphColumn((name,)) for name in columns}
        self._operators: dict[str, Callable[[], Step]] = {
            "where": self._where,
            "extend": self._extend,
            "project": self._project,
            "order": self._order,
            "sort": self._order,
            "limit": self._limit,
            "take": self._limit,
            "count": self._count,
            "summarize": self._summarize,
        }

    def query(self) -> GraphQuery:
        table = self._word("a table")
        if table.lower() != TABLE:
            raise _invalid(f"There is no table {table[:40]!r} here.")
        found: list[Step] = []
        while self._takes("|"):
            _refuse_above(MOST_STEPS, len(found) + 1, "steps")
            found.append(self._operator())
        if self._next is not _END:
            raise self._unexpected("| or the end")
        return GraphQuery(tuple(found), self._columns)

    def _now_named(self, columns: Iterable[str]) -> None:
        self._columns = {name: GraphColumn((name,)) for name in columns}

    def _operator(self) -> Step:
        name = self._word("an operator")
        if name not in self._operators:
            raise _invalid(f"The operator {name[:40]!r} is not understood.")
        return self._operators[name]()

    # Operators

    def _where(self) -> Step:
        return where(self._either())

    def _extend(self) -> Step:
        self._columns |= dict(self._named_columns())
        _refuse_above(MOST_COLUMNS, len(self._columns), "columns")
        return _as_they_are

    def _project(self) -> Step:
        self._columns = dict(self._named_columns())
        return _as_they_are

    def _order(self) -> Step:
        self._expect("by")
        return order(self._many(self._sorted_by))

    def _sorted_by(self) -> tuple[GraphColumn, bool]:
        column = self._column()
        for word, ascending in (("asc", True), ("desc", False)):
            if self._takes(word):
                return column, ascending
        return column, False  # as Resource Graph has it

    def _limit(self) -> Step:
        number = self._value()
        if not isinstance(number, int) or number < 0:
            raise _invalid(f"{number!r} is not a number of rows.")
        return limit(number)

    def _count(self) -> Step:
        self._now_named(["Count"])
        return count

    def _summarize(self) -> Step:
        name = self._name_before_equals() or "count_"
        for part in ("count", "(", ")"):
            self._expect(part)
        by = self._named_columns() if self._takes("by") else []
        self._now_named(self._once([*(each for each, _ in by), name]))
        return summarize(by, name)

    # Conditions

    def _either(self) -> Predicate:
        return any_of(self._many(self._both, "or", MOST_CONDITIONS))

    def _both(self) -> Predicate:
        return all_of(self._many(self._condition, "and", MOST_CONDITIONS))

    def _condition(self) -> Predicate:
        if not self._takes("("):
            return self._comparison()
        self._depth += 1
        if self._depth > DEEPEST:
            raise _invalid(f"The query has more than {DEEPEST} brackets in each other.")
        inner = self._either()
        self._expect(")")
        self._depth -= 1
        return inner

    def _comparison(self) -> Predicate:
        self._conditions += 1
        _refuse_above(MOST_CONDITIONS, self._conditions, "comparisons")
        column, operator = self._column(), self._advance().text
        if operator in _WITH_ONE:
            values = [self._value()]
        elif operator in _WITH_MANY:
            self._expect("(")
            values = self._many(self._value, most=LONGEST)
            self._expect(")")
        else:
            raise _invalid(f"The comparison {operator[:40]!r} is not understood.")
        found = among(column, values, any_case=operator.endswith("~"))
        return none_of(found) if operator.startswith("!") else found

    # Columns and values

    def _named_columns(self) -> list[tuple[str, GraphColumn]]:
        named = self._many(self._named_column)
        self._once([name for name, _ in named])
        return named

    def _named_column(self) -> tuple[str, GraphColumn]:
        name, begin = self._name_before_equals(), self._at
        column = self._column()
        return name or "_".join(self._names_since(begin)), column

    def _names_since(self, begin: int) -> Iterator[str]:
        """The names of the column that was read since there."""
        is_text = self._tokens[begin].text == "tostring" and self._tokens[begin + 1].text == "("
        for token in self._tokens[begin + 2 * is_text : self._at]:
            if token.kind in ("text", "word"):
                yield _unquoted(token.text) if token.kind == "text" else token.text

    def _name_before_equals(self) -> str:
        if self._next.kind != "word" or self._tokens[self._at + 1].text != "=":
            return ""
        name = self._advance().text
        self._advance()
        return name

    def _once(self, names: list[str]) -> list[str]:
        known = set[str]()
        for name in names:
            if name in known:
                raise _invalid(f"There would be two columns {name[:40]!r}.")
            known.add(name)
        return names

    def _column(self) -> GraphColumn:
        if self._next.text != "tostring" or self._tokens[self._at + 1].text != "(":
            return self._path()
        self._at += 2
        column = self._path()
        self._expect(")")
        return column._replace(as_text=True)

    def _path(self) -> GraphColumn:
        name = self._word("a column")
        if name not in self._columns:
            known = ", ".join(each[:40] for each in islice(self._columns, _SHOWN))
            raise _invalid(f"There is no column {name[:40]!r} here; there are {known}.")
        path = list[str]()
        while (opening := self._next.text) in (".", "["):
            self._advance()
            path.append(self._word("a name") if opening == "." else self._text())
            _refuse_above(LONGEST_PATH, len(path) + 1, "names of a column")
            if opening == "[":
                self._expect("]")
        return self._columns[name].below(tuple(path))

    def _value(self) -> object:
        token = self._next
        if token.kind == "text":
            return self._text()
        if token.kind == "number":
            self._advance()
            return float(token.text) if "." in token.text else int(token.text)
        if token.text in ("true", "false"):
            return self._advance().text == "true"
        raise self._unexpected("a value")

    def _text(self) -> str:
        if self._next.kind != "text":
            raise self._unexpected("a text in quotes")
        return _unquoted(self._advance().text)

    # Tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _advance(self) -> _Token:
        token = self._next
        if token is not _END:
            self._at += 1
        return token

    def _takes(self, text: str) -> bool:
        if self._next.kind == "text" or self._next.text != text:
            return False
        self._advance()
        return True

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise self._unexpected(text)

    def _word(self, what: str) -> str:
        if self._next.kind != "word":
            raise self._unexpected(what)
        return self._advance().text

    def _many(self, one: Callable[[], T], between: str = ",", most: int = MOST_COLUMNS) -> list[T]:
        found = [one()]
        while self._takes(between):
            _refuse_above(most, len(found) + 1, "columns")
            found.append(one())
        return found

    def _unexpected(self, wanted: str) -> InvalidQuery:
        found = "the end of the query" if self._next is _END else repr(self._next.text[:40])
        return _invalid(f"Where {wanted} was expected there is {found}.")


def _as_they_are(rows: Iterator[Row], _: Budget) -> Iterator[Row]:
    return rows


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _invalid(message: str) -> InvalidQuery:
    return InvalidQuery(message, hint=UNDERSTOOD)


def _refuse_above(most: int, number: int, what: str) -> None:
    if number > most:
        raise _invalid(f"The query has more than {most} {what}.")
