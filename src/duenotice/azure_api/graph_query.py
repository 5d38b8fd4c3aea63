"""The part of Resource Graph's query language that is understood: a text becomes steps over rows (M12). Pure."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from duenotice.azure_api import graph_steps as steps
from duenotice.azure_api.graph_steps import GraphColumn, Predicate, Row, Step
from duenotice.errors import LookAt, Malformed

TABLE = "maintenanceresources"
UNDERSTOOD = (
    f"Understood is: {TABLE} | where COLUMN ==, =~, != or !~ VALUE, COLUMN in, in~, !in or !in~ (VALUE, …), with and, "
    "or and ( ) | project [NAME =] COLUMN, … | order by COLUMN [asc or desc], … | limit N or take N | count "
    "| summarize [NAME =] count() [by COLUMN, …]. A COLUMN may be properties.NAME or tostring(COLUMN)."
)
LONGEST = 10_000
"""Characters of a query."""
DEEPEST = 50
"""Brackets in brackets."""

T = TypeVar("T")
_TOKEN = re.compile(
    r"(?P<text>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<sign>!in~|!in\b|in~|=~|!~|==|!=|[|,()=.\[\]])"
    r"|(?P<number>-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?![0-9]))"  # no count of rows is longer, and no value of ours
    r"|(?P<word>[A-Za-z_]\w*)"
)
_BLANK = re.compile(r"(?:\s|//[^\n]*)*")


class InvalidQuery(Malformed):
    """A query that is not understood."""

    def __init__(self, message: str = "", *, hint: str = UNDERSTOOD, look_at: LookAt | None = None) -> None:
        super().__init__(message, hint=hint, look_at=look_at)


class GraphQuery(NamedTuple):
    """What is done with the rows, one after the other, and the columns that are left."""

    steps: tuple[Step, ...]
    columns: tuple[str, ...]

    def run(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows that the query gives."""
        found = iter(rows)
        for step in self.steps:
            found = step(found)
        return found


def parse(text: str, columns: tuple[str, ...]) -> GraphQuery:
    """The query in a text on rows with these columns; `InvalidQuery` says what is understood."""
    return _Parser(text, columns).query()


class _Token(NamedTuple):
    kind: str
    text: str


def _tokens(text: str) -> Iterator[_Token]:
    if len(text) > LONGEST:
        raise InvalidQuery(f"The query has {len(text)} characters; {LONGEST} are the most.")
    at = _after_blank(text, 0)
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise InvalidQuery(f"{text[at : at + 20]!r} is not understood.")
        yield _Token(found.lastgroup or "", found[0])
        at = _after_blank(text, found.end())


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


_END = _Token("end", "")
_COMPARED = {"==": steps.equal, "=~": steps.alike, "!=": steps.unequal, "!~": steps.unlike}
_AMONG = {"in": steps.equal, "in~": steps.alike}
_NOT_AMONG = {"!in": steps.unequal, "!in~": steps.unlike}


class _Parser:
    """Reads one query from its beginning to its end."""

    def __init__(self, text: str, columns: tuple[str, ...]) -> None:
        self._tokens, self._at, self._depth = [*_tokens(text), _END], 0, 0
        self._columns = columns
        self._operators: dict[str, Callable[[], Step]] = {
            "where": self._where,
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
            raise InvalidQuery(f"There is no table {table!r} here.")
        found: list[Step] = []
        while self._takes("|"):
            found.append(self._operator())
        if self._next is not _END:
            raise self._unexpected("| or the end")
        return GraphQuery(tuple(found), self._columns)

    def _operator(self) -> Step:
        name = self._word("an operator")
        if name not in self._operators:
            raise InvalidQuery(f"The operator {name!r} is not understood.")
        return self._operators[name]()

    # Operators

    def _where(self) -> Step:
        return steps.where(self._either())

    def _project(self) -> Step:
        chosen = self._named_columns()
        self._columns = tuple(name for name, _ in chosen)
        return steps.project(chosen)

    def _order(self) -> Step:
        self._expect("by")
        return steps.order(self._many(self._sorted_by))

    def _sorted_by(self) -> tuple[GraphColumn, bool]:
        column = self._column()
        for word, ascending in (("asc", True), ("desc", False)):
            if self._takes(word):
                return column, ascending
        return column, False  # as Resource Graph has it

    def _limit(self) -> Step:
        number = self._value()
        if not isinstance(number, int) or number < 0:
            raise InvalidQuery(f"{number!r} is not a number of rows.")
        return steps.limit(number)

    def _count(self) -> Step:
        self._columns = ("Count",)
        return steps.count

    def _summarize(self) -> Step:
        name = self._name_before_equals() or "count_"
        for part in ("count", "(", ")"):
            self._expect(part)
        by = self._named_columns() if self._takes("by") else []
        self._columns = self._once((*(each for each, _ in by), name))
        return steps.summarize(by, name)

    # Conditions

    def _either(self) -> Predicate:
        return steps.any_of(self._many(self._both, "or"))

    def _both(self) -> Predicate:
        return steps.all_of(self._many(self._condition, "and"))

    def _condition(self) -> Predicate:
        if not self._takes("("):
            return self._comparison()
        self._depth += 1
        if self._depth > DEEPEST:
            raise InvalidQuery(f"The query has more than {DEEPEST} brackets in each other.")
        inner = self._either()
        self._expect(")")
        self._depth -= 1
        return inner

    def _comparison(self) -> Predicate:
        column, operator = self._column(), self._advance().text
        if operator in _COMPARED:
            return steps.compared(column, _COMPARED[operator], self._value())
        if operator not in _AMONG and operator not in _NOT_AMONG:
            raise InvalidQuery(f"The comparison {operator!r} is not understood.")
        self._expect("(")
        values = self._many(self._value)
        self._expect(")")
        if operator in _AMONG:
            return steps.any_of([steps.compared(column, _AMONG[operator], value) for value in values])
        return steps.all_of([steps.compared(column, _NOT_AMONG[operator], value) for value in values])

    # Columns and values

    def _named_columns(self) -> list[tuple[str, GraphColumn]]:
        named = self._many(self._named_column)
        self._once(tuple(name for name, _ in named))
        return named

    def _named_column(self) -> tuple[str, GraphColumn]:
        name = self._name_before_equals()
        column = self._column()
        return name or "_".join(column.path), column

    def _name_before_equals(self) -> str:
        if self._next.kind != "word" or self._tokens[self._at + 1].text != "=":
            return ""
        name = self._advance().text
        self._advance()
        return name

    def _once(self, names: tuple[str, ...]) -> tuple[str, ...]:
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidQuery(f"There would be two columns {twice!r}.")
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
            raise InvalidQuery(f"There is no column {name!r} here; there are {', '.join(self._columns)}.")
        path = [name]
        while (opening := self._next.text) in (".", "["):
            self._advance()
            path.append(self._word("a name") if opening == "." else self._text())
            if opening == "[":
                self._expect("]")
        return GraphColumn(tuple(path))

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
        return re.sub(r"\\(.)", r"\1", self._advance().text[1:-1])

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

    def _many(self, one: Callable[[], T], between: str = ",") -> list[T]:
        found = [one()]
        while self._takes(between):
            found.append(one())
        return found

    def _unexpected(self, wanted: str) -> InvalidQuery:
        found = "the end of the query" if self._next is _END else repr(self._next.text[:40])
        return InvalidQuery(f"Where {wanted} was expected there is {found}.")
