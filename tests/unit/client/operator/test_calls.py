"""Every call of the operator's API has its function, and both clients have all of them."""

import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from duenotice.client.operator import calls, errors
from duenotice.client.operator.client import AsyncOperatorClient, OperatorClient
from duenotice.client.operator.request import ListRequest, OperatorRequest
from duenotice.domain.token import Role
from duenotice.wire.operator import EventQuery, MaintenanceRequest, VmQuery
from tests.support.node import Node

VERBS: dict[str, Callable[..., Any]] = {
    name: verb for name, verb in vars(calls).items() if getattr(verb, "__module__", "") == calls.__name__
}


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
    asked = verb(**{name: example(parameter) for name, parameter in inspect.signature(verb).parameters.items()})
    request: OperatorRequest[Any] = asked.page("c", 7) if isinstance(asked, ListRequest) else asked
    return request


def test_there_is_a_verb_for_every_call_and_none_for_anything_else() -> None:
    """The feed has its own way: it does not end. Followers are not operators."""
    with Node() as node:
        all_of_them = [call for call in node.service._api.calls if call.role is not Role.FOLLOWER]
    served = {(call.method, call.path) for call in all_of_them} - {("GET", "/v1/feed")}
    patterns = {(method, re.compile(re.sub(r"\{\w+\}", "[^/]+", path))): path for method, path in served}
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
    assert found == served


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


@pytest.mark.parametrize("kind", [OperatorClient, AsyncOperatorClient])
def test_both_clients_have_all_verbs_with_their_parameters(kind: type) -> None:
    """And say the same of them."""

    def told(verb: Callable[..., Any], skip: int = 0) -> tuple[str | None, list[inspect.Parameter]]:
        return verb.__doc__, list(inspect.signature(verb).parameters.values())[skip:]

    assert {name: told(getattr(kind, name), 1) for name in VERBS} == {name: told(verb) for name, verb in VERBS.items()}


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    def shape(kind: type) -> dict[str, list[str]]:
        public = {name: verb for name, verb in inspect.getmembers(kind, callable) if not name.startswith("_")}
        return {name: list(inspect.signature(verb).parameters) for name, verb in public.items()}

    assert shape(OperatorClient) == shape(AsyncOperatorClient)


@pytest.mark.parametrize("name", VERBS)
def test_each_verb_says_what_it_does(name: str) -> None:
    assert (VERBS[name].__doc__ or "").endswith(".")


def test_each_error_of_the_client_is_drawn_in_its_tree() -> None:
    drawn = errors.__doc__ or ""
    named = [kind.__name__ for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert all(re.search(rf"\b{name} ", drawn) for name in named)
