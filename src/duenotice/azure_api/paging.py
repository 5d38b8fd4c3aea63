"""Pages of lists: how many items each has, and the link to the next one (M04)."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar
from urllib.parse import urlencode

from msgspec import UNSET
from starlette.requests import Request

from duenotice.azure_api.shape import Listed
from duenotice.azure_api.sign_in import base_of
from duenotice.domain.fleet import Group

T = TypeVar("T")
PAGE = 1000
TOKEN = "$skiptoken"


def page_of(request: Request, names: Sequence[str], shown: Callable[[str], T | None]) -> Listed[T]:
    """The page that a request asks for of things with their names in order; what is not to be shown is left out."""
    after = request.query_params.get(TOKEN, "")
    behind = (names[place] for place in range(bisect_right(names, after), len(names)))
    wanted = ((name, item) for name in behind if (item := shown(name)) is not None)
    found = list(islice(wanted, PAGE + 1))
    link = _next(request, found[PAGE - 1][0]) if len(found) > PAGE else UNSET
    return Listed([item for _, item in found[:PAGE]], link)


def names_of(names: Sequence[str], group: Group) -> Sequence[str]:
    """Those of the instances of a scale set, as far as names tell."""
    begin = f"{group.name}_"
    return names[bisect_left(names, begin) : bisect_left(names, f"{group.name}`")]


def _next(request: Request, last: str) -> str:
    query = {**request.query_params, TOKEN: last}
    return f"{base_of(request)}{request.url.path}?{urlencode(query)}"
