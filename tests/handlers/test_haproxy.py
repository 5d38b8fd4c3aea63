"""`haproxy` and `readiness` against a real HAProxy with real backends."""

import asyncio
import threading

import pytest

from duenotice.agent.handlers.base import HandlerFailed, TryAgain
from duenotice.agent.handlers.loading import load
from duenotice.agent.handlers.readiness import READINESS
from tests.handlers.balancer import Balancer, balancing
from tests.handlers.contexts import (
    NOTES,
    SECONDS,
    cancelled_when,
    context,
    prepare,
    prepare_killed,
    recover,
    undone,
    wait_until,
)

pytestmark = pytest.mark.machine


@pytest.fixture
def balancer(tmp_path):
    with balancing(tmp_path) as running:
        yield running


def _keys(balancer: Balancer, **more: object) -> dict[str, object]:
    return {"servers": ["web/web-0"], "socket": balancer.socket, **more}


@pytest.mark.parametrize("way", ["socket", "tcp"])
def test_it_drains_and_puts_back(balancer, way):
    """After prepare new requests go elsewhere, after recover they come again; twice is as once."""
    keys, notes = _keys(balancer, socket=getattr(balancer, way)), NOTES()
    prepare("haproxy", notes, **keys)
    prepare("haproxy", notes, **keys)
    assert balancer.serving() == {"web-1"}
    recover("haproxy", notes, **keys)
    recover("haproxy", notes, **keys)
    assert balancer.serving() == {"web-0", "web-1"}


def test_it_sees_that_a_server_has_its_traffic_back(balancer):
    """HAProxy forgets what the socket told it when it is reloaded; a server that is taken out altogether stays out."""
    keys, notes = _keys(balancer), NOTES()
    prepare("haproxy", notes, **keys)
    assert undone("haproxy", notes, **keys) == ""
    balancer.command("set server web/web-0 state maint")
    assert undone("haproxy", notes, **keys) == ""
    balancer.command("set server web/web-0 state ready")
    assert undone("haproxy", notes, **keys) == "web/web-0 takes new sessions again"
    prepare("haproxy", notes, **keys)
    assert undone("haproxy", notes, **keys) == ""


def test_requests_in_flight_finish(balancer):
    """Prepare returns only when the last request has its answer."""
    answers: list[tuple[int, str]] = []
    clients = [threading.Thread(target=lambda: answers.append(balancer.get("/slow"))) for _ in range(4)]
    for client in clients:
        client.start()
    wait_until(lambda: sum(backend.slow for backend in balancer.backends) == 4)
    waiting = threading.Thread(target=prepare, args=("haproxy", NOTES()), kwargs=_keys(balancer))
    waiting.start()
    wait_until(lambda: balancer.admin_state("web-0"))
    balancer.backends[1].let_go.set()
    assert waiting.is_alive()
    balancer.backends[0].let_go.set()
    for thread in (waiting, *clients):
        thread.join(SECONDS)
    assert sorted(answers) == [(200, "web-0")] * 2 + [(200, "web-1")] * 2


def test_sessions_that_do_not_end_are_a_failure_unless_there_is_a_limit(balancer):
    """Without a limit all must end in the time there is; with one, going on is good enough."""
    clients = balancer.hold(2)
    with pytest.raises(HandlerFailed, match="sessions of web/web-0"):
        asyncio.run(load("it", "haproxy", _keys(balancer)).prepare(context({}, seconds=0.5)))
    prepare("haproxy", {}, **_keys(balancer, limit="100ms"))
    assert balancer.backends[0].slow == 1
    balancer.let_go(clients)


@pytest.mark.parametrize("state", ["drain", "maint"])
def test_what_somebody_else_took_out_stays_out(balancer, state):
    """A state that was there before is not ours to undo."""
    balancer.command(f"set server web/web-0 state {state}")
    before, notes = balancer.admin_state("web-0"), NOTES()
    prepare("haproxy", notes, **_keys(balancer))
    recover("haproxy", notes, **_keys(balancer))
    assert balancer.admin_state("web-0") == before


def test_what_somebody_took_out_meanwhile_stays_out(balancer):
    """An operator's maintenance during the event outlives our recover."""
    notes = NOTES()
    prepare("haproxy", notes, **_keys(balancer))
    balancer.command("set server web/web-0 state maint")
    recover("haproxy", notes, **_keys(balancer))
    assert balancer.serving() == {"web-1"}


@pytest.mark.parametrize("written", [False, True])
def test_recover_after_a_kill_at_the_note(balancer, written):
    """Nothing stays drained (S15)."""
    notes = NOTES()
    assert asyncio.run(prepare_killed("haproxy", notes, 1, written, **_keys(balancer)))
    recover("haproxy", notes, **_keys(balancer))
    assert balancer.serving() == {"web-0", "web-1"}


def test_recover_after_a_cancel_while_draining(balancer):
    """Cut while sessions last: recover puts the server back (S15)."""
    clients = balancer.hold(2)
    notes = NOTES()
    verb = load("it", "haproxy", _keys(balancer)).prepare(context(notes))
    asyncio.run(cancelled_when(verb, lambda: balancer.admin_state("web-0") != 0))
    recover("haproxy", notes, **_keys(balancer))
    assert balancer.admin_state("web-0") == 0
    balancer.let_go(clients)


def test_mistakes_are_told(balancer, tmp_path):
    """A server that HAProxy does not have, a socket where nobody is, one without the right, one of something else."""
    with pytest.raises(HandlerFailed, match="no server web/web-9") as caught:
        prepare("haproxy", {}, **_keys(balancer, servers=["web/web-9"]))
    assert "web/web-0, web/web-1" in caught.value.hint
    with pytest.raises(TryAgain, match="does not answer"):
        prepare("haproxy", {}, **_keys(balancer, socket=str(tmp_path / "nothing")))
    with pytest.raises(HandlerFailed, match="Permission denied"):
        prepare("haproxy", {}, **_keys(balancer, socket=balancer.user_socket))
    with pytest.raises(HandlerFailed, match="refused 'show servers state'"):
        prepare("haproxy", {}, **_keys(balancer, socket=f"127.0.0.1:{balancer.front}"))  # not the runtime socket


def test_readiness_makes_a_health_check_take_us_out(balancer):
    """`readiness` alone: HAProxy's own check sees 503 and sends nothing more, and the way back opens it."""
    notes = NOTES()
    prepare("readiness", notes, settle="800ms")
    try:
        assert balancer.serving() == {"web-1"}
    finally:
        recover("readiness", notes)
        recover("readiness", notes)
    wait_until(lambda: balancer.serving() == {"web-0", "web-1"})


@pytest.mark.parametrize("written", [False, True])
def test_readiness_comes_back_from_a_kill(written):
    """Killed at its note, recover leaves the machine ready (S15)."""
    notes = NOTES()
    assert asyncio.run(prepare_killed("readiness", notes, 1, written, settle="0s"))
    recover("readiness", notes)
    assert not READINESS.is_drained
