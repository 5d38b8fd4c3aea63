"""Every call of the operator's API has its verb, and the two clients have the same ones."""

import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from duenotice.client.operator import errors
from duenotice.client.operator.async_verbs import AsyncVerbs
from duenotice.client.operator.blocking import OperatorClient
from duenotice.client.operator.listing import Listing
from duenotice.client.operator.request import OperatorRequest, QueryValue
from duenotice.client.operator.streaming import AsyncOperatorClient
from duenotice.client.operator.verbs import Verbs
from duenotice.domain.token import Role
from duenotice.wire.operator import EventQuery, MaintenanceRequest, Page, VmQuery
from tests.support.node import Node
from tools import async_verbs

T = TypeVar("T")
VERBS = {name: verb for name, verb in vars(Verbs).items() if callable(verb) and not name.startswith("_")}


class Asked(Verbs):
    """Notes what would be sent."""

    def __init__(self) -> None:
        self.requests: list[OperatorRequest[Any]] = []

    def _do(self, request: OperatorRequest[T]) -> T:
        self.requests.append(request)
        page: Any = Page((), None)
        return page  # type: ignore[no-any-return]

    def _all(self, kind: type[T], *path: str, **query: QueryValue) -> Listing[T]:
        return Listing(self._do, kind, path, query)


EXAMPLES = {"datetime | None": datetime(2026, 1, 1, tzinfo=UTC), "int | None": 1, "bool": True, "int": 1}


def example(parameter: inspect.Parameter) -> Any:
    """A value of the right kind."""
    kind = inspect.formatannotation(parameter.annotation).replace("datetime.datetime", "datetime")
    if kind.endswith("MaintenanceRequest"):
        return MaintenanceRequest(("set=web",), "Reboot")
    if kind.endswith("EventQuery"):
        return EventQuery(*"stcghmvqb")
    if kind.endswith("VmQuery"):
        return VmQuery(*"ghslqt")
    return ["x"] if "Iterable" in kind else EXAMPLES.get(kind, "x")


def sent(verb: Callable[..., Any]) -> OperatorRequest[Any]:
    """What a verb sends, with a value for each parameter."""
    asked = Asked()
    parameters = list(inspect.signature(verb).parameters.values())[1:]
    given = {parameter.name: example(parameter) for parameter in parameters}
    done = verb(asked, **given)
    if isinstance(done, Listing):
        done.page("c", 7)
    (request,) = asked.requests
    return request


def test_there_is_a_verb_for_every_call_and_none_for_anything_else() -> None:
    """The feed has its own way: it does not end. Followers are not operators."""
    with Node() as node:
        all_of_them = [call for call in node.service._api.calls if call.role is not Role.FOLLOWER]
    calls = {(call.method, call.path) for call in all_of_them} - {("GET", "/v1/feed")}
    patterns = {(method, re.compile(re.sub(r"\{\w+\}", "[^/]+", path))): path for method, path in calls}
    found = set()
    for name, verb in VERBS.items():
        request, path = sent(verb), sent(verb).target.partition("?")[0]
        fitting = [
            (method, written)
            for (method, pattern), written in patterns.items()
            if method == request.method and pattern.fullmatch(path)
        ]
        assert fitting, f"{name} asks {request.method} {path}, which is no call"
        found.add(max(fitting, key=lambda call: -call[1].count("{")))
    assert found == calls


def test_a_verb_asks_only_for_what_its_call_knows() -> None:
    """The service refuses a parameter that it does not know."""
    with Node() as node:
        known = {
            (call.method, call.path): [getattr(asked, "name", asked) for asked in call.query]
            for call in node.service._api.calls
        }
    for name, verb in VERBS.items():
        request = sent(verb)
        path, _, query = request.target.partition("?")
        asked = {pair.partition("=")[0] for pair in query.split("&") if pair}
        fitting = [
            names
            for (method, written), names in known.items()
            if method == request.method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", written), path)
        ]
        assert any(asked <= set(names) or not names for names in fitting), (name, asked, fitting)


def test_the_verbs_with_await_are_made_from_the_others() -> None:
    """Run `python tools/async_verbs.py` after a change of verbs.py."""
    assert async_verbs.MADE.read_text() == async_verbs.made()


def test_both_clients_have_the_same_verbs_with_the_same_parameters() -> None:
    def shape(kind: type) -> dict[str, list[str]]:
        public = {name: verb for name, verb in inspect.getmembers(kind, callable) if not name.startswith("_")}
        return {name: list(inspect.signature(verb).parameters) for name, verb in public.items()}

    assert shape(OperatorClient) == shape(AsyncOperatorClient)
    assert set(VERBS) == {name for name in vars(AsyncVerbs) if not name.startswith("_")}


@pytest.mark.parametrize("name", VERBS)
def test_each_verb_says_what_it_does(name: str) -> None:
    assert (VERBS[name].__doc__ or "").endswith(".")


def test_each_error_of_the_client_is_drawn_in_its_tree() -> None:
    drawn = errors.__doc__ or ""
    named = [kind.__name__ for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert all(re.search(rf"\b{name} ", drawn) for name in named)
