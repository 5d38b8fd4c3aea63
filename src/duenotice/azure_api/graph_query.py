"""The part of Resource Graph's query language that is understood: a text becomes steps over rows (M12). Pure."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from duenotice.azure_api import graph_steps as steps
from duenotice.azure_api.graph_steps import Budget, GraphColumn, InvalidQuery, Predicate, Row, Step

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
_ONE = ("==", "=~", "!=", "!~")
_MANY = ("in", "in~", "!in", "!in~")


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
        return steps.where(self._either())

    def _extend(self) -> Step:
        self._columns |= dict(self._named_columns())
        _refuse_above(MOST_COLUMNS, len(self._columns), "columns")
        return _as_they_are

    def _project(self) -> Step:
        self._columns = dict(self._named_columns())
        return _as_they_are

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
            raise _invalid(f"{number!r} is not a number of rows.")
        return steps.limit(number)

    def _count(self) -> Step:
        self._now_named(["Count"])
        return steps.count

    def _summarize(self) -> Step:
        name = self._name_before_equals() or "count_"
        for part in ("count", "(", ")"):
            self._expect(part)
        by = self._named_columns() if self._takes("by") else []
        self._now_named(self._once([*(each for each, _ in by), name]))
        return steps.summarize(by, name)

    # Conditions

    def _either(self) -> Predicate:
        return steps.any_of(self._many(self._both, "or", MOST_CONDITIONS))

    def _both(self) -> Predicate:
        return steps.all_of(self._many(self._condition, "and", MOST_CONDITIONS))

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
        if operator in _ONE:
            values = [self._value()]
        elif operator in _MANY:
            self._expect("(")
            values = self._many(self._value, most=LONGEST)
            self._expect(")")
        else:
            raise _invalid(f"The comparison {operator[:40]!r} is not understood.")
        found = steps.among(column, values, any_case=operator.endswith("~"))
        return steps.none_of(found) if operator.startswith("!") else found

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
