"""Sessions of the console: opaque, kept by the server, ended by it, and of no use anywhere else (S35)."""

import asyncio
import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from duenotice.clock import Instant, micros_of
from duenotice.console.session import SIGN_INS
from duenotice.domain.commands import SetEventsPolicy
from duenotice.domain.fleet import EventsPolicy
from duenotice.domain.records import OperationPerformed
from duenotice.domain.token import LASTS, digest_of
from tests.console.conftest import FLEET, Visitors
from tests.console.test_door import FORM, ask
from tests.crash.server import Server
from tests.protocol.world import Disk
from tests.support.certificates import certificates
from tests.support.node import SECONDS, Node, Outside, signed_in, wire
from tests.support.served import wait_until
from tests.support.three_nodes import three_emulators

SIGN_IN = (303, "/sign-in?next=/")
SOON = 5.0
"""Half a second and a little, on a machine that has nothing else to do. A page that goes on never ends."""


def front(node: Outside, cookie: str) -> tuple[int, str]:
    """How the front page answers, and where it leads."""
    return page(node.operator_address, cookie)


def page(address: tuple[str, int], cookie: str, path: str = "/", method: str = "GET") -> tuple[int, str]:
    with closing(http.client.HTTPConnection(*address, timeout=SECONDS)) as connection:
        connection.request(method, path, "", {"Cookie": cookie, **FORM})
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers.get("location", "")


def live(stack: ExitStack, address: tuple[str, int], cookie: str) -> http.client.HTTPResponse:
    """An open page, as its browser listens."""
    connection = stack.enter_context(closing(http.client.HTTPConnection(*address, timeout=SECONDS)))
    connection.request("GET", "/live", headers={"Cookie": cookie})
    answer = stack.enter_context(connection.getresponse())
    assert answer.status == 200
    answer.readline()
    return answer


def seconds_to_its_end(stream: http.client.HTTPResponse) -> float:
    begun = time.monotonic()
    while stream.readline():
        assert time.monotonic() < begun + SECONDS, "it goes on"
    return time.monotonic() - begun


@pytest.fixture
def open_things() -> Iterator[ExitStack]:
    """What is open until the end of a test."""
    with ExitStack() as stack:
        yield stack


def test_the_cookie_is_no_token(node: Node) -> None:
    """It is not in it, and the API takes neither it nor what is stored of it."""
    cookie = node.cookie()
    name, _, secret = cookie.partition("=")
    assert name == f"duenotice_session_{node.operator_address[1]}"
    assert node.token not in cookie and len(secret) == 43
    for text in (secret, digest_of(secret), cookie):
        assert ask(node, "GET", "/v1/me", Authorization=f"Bearer {text}").status == 401
    assert front(node, cookie) == (200, "")


def test_the_token_never_leaves_the_form(node: Node) -> None:
    """No header of an answer has it, and no page that follows."""
    answer = ask(node, "POST", "/sign-in", f"token={node.token}&next=/tokens")
    assert node.token not in str(answer.headers)
    cookie = answer.headers["set-cookie"].partition(";")[0]
    for path in ("/", "/tokens", "/audit", "/sign-in"):
        assert node.token.encode() not in ask(node, "GET", path, cookie=cookie).body, path


def test_signing_out_ends_the_session_at_the_server(
    node: Node, open_things: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old cookie leads to the form; its open pages end at once, and those of another browser stay."""
    for beat in ("BEAT_SECONDS", "LOOK_SECONDS"):  # which would end them too, but later
        monkeypatch.setattr(f"duenotice.console.live.{beat}", SECONDS)
    cookie, other = node.cookie(), node.cookie()
    ends, stays = (live(open_things, node.operator_address, each) for each in (cookie, other))
    assert page(node.operator_address, cookie, "/sign-out", "POST") == (303, "/sign-in")
    assert seconds_to_its_end(ends) < SOON
    assert front(node, cookie) == SIGN_IN
    assert ask(node, "POST", "/vms/web-0/restart", cookie=cookie).headers["location"].startswith("/sign-in")
    assert node.events("web-0") == []
    assert (front(node, other), stays.readline() != b"") == ((200, ""), True)


def test_a_long_answer_ends_with_its_session(
    node: Node, open_things: ExitStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """An export of several megabytes that is being read; it is cut off, so that nobody takes it for the whole."""

    async def fill() -> None:
        submit, policies = node.service.engine.submit, (EventsPolicy(True), EventsPolicy(False))
        await asyncio.gather(*(submit(SetEventsPolicy("set/web", policies[n % 2]), "test") for n in range(20_000)))

    node.run(fill())
    cookie = node.cookie()
    exported = export(open_things, node, cookie)
    page(node.operator_address, cookie, "/sign-out", "POST")
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        exported.read()
    assert "Traceback" not in capsys.readouterr().out


def export(stack: ExitStack, node: Node, cookie: str) -> http.client.HTTPResponse:
    """The beginning of an export, by somebody who reads slowly."""
    reader = stack.enter_context(socket.socket())
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.settimeout(SECONDS)
    host, port = node.operator_address
    reader.connect((host, port))
    reader.sendall(wire("GET /audit/export?format=jsonl HTTP/1.1", f"Host: {host}:{port}", f"Cookie: {cookie}"))
    answer = http.client.HTTPResponse(reader)
    answer.begin()
    assert answer.status == 200
    return answer


def test_a_revoked_token_ends_its_pages_and_streams_at_once(node: Node, open_things: ExitStack) -> None:
    made = node.operate("/v1/tokens", {"name": "ann", "role": "viewer"})
    cookie = node.cookie(made["token"])
    stream = live(open_things, node.operator_address, cookie)
    node.operate(f"/v1/tokens/{made['id']}", method="DELETE")
    assert front(node, cookie) == SIGN_IN
    assert seconds_to_its_end(stream) < SOON
    assert node.service.engine.state.sessions == {}


def set_clock(node: Node, at: timedelta, steady: timedelta) -> None:
    """Move the two faces of the node's clock, as nobody but a machine can."""

    def move() -> None:
        clock: Any = node.service.engine.clock
        clock._now = Instant(clock._now.at + at, clock._now.steady + micros_of(steady))

    node.emulator.call(move)


def test_a_session_runs_out_at_the_server_when_both_faces_of_time_say_so(node: Node, open_things: ExitStack) -> None:
    """S34: a wall clock that is wrong for a moment signs nobody out, and time that stood still is made up for."""
    cookie, moment, nothing = node.cookie(), timedelta(microseconds=1), timedelta(0)
    set_clock(node, timedelta(days=2), nothing)
    assert front(node, cookie) == (200, "")
    set_clock(node, -timedelta(days=2), LASTS - moment)
    assert front(node, cookie) == (200, "")
    set_clock(node, nothing, moment)
    assert front(node, cookie) == (200, "")
    stream = live(open_things, node.operator_address, cookie)
    set_clock(node, LASTS, nothing)
    assert front(node, cookie) == SIGN_IN
    assert seconds_to_its_end(stream) < SOON


def test_each_sign_in_has_a_secret_of_its_own_and_ends_the_session_before(node: Node) -> None:
    """A cookie that somebody planted in the browser is worth nothing after it."""
    planted = node.cookie(str(node.operate("/v1/tokens", {"name": "evil", "role": "viewer"})["token"]))
    answer = ask(node, "POST", "/sign-in", f"token={node.token}", cookie=planted)
    own = answer.headers["set-cookie"].partition(";")[0]
    assert own != planted
    assert [front(node, each) for each in (planted, own)] == [SIGN_IN, (200, "")]


def test_rights_are_those_of_the_token_in_this_moment(node: Node) -> None:
    """Also in the page of a follower's token, which may not sign in at all."""
    made = node.operate("/v1/tokens", {"name": "h1", "role": "follower"})
    assert ask(node, "POST", "/sign-in", f"token={made['token']}").status == 401
    cookie = node.cookie(str(node.operate("/v1/tokens", {"name": "v", "role": "viewer"})["token"]))
    assert ask(node, "POST", "/vms/web-0/restart", cookie=cookie).status == 403


def test_signing_in_again_and_again_has_an_end(node: Node) -> None:
    """Each is a record for ever; and another token signs in all the same."""
    for _ in range(SIGN_INS):
        node.cookie()
    refused = ask(node, "POST", "/sign-in", f"token={node.token}")
    assert (refused.status, b"This token has signed in too often." in refused.body) == (429, True)
    assert node.cookie(str(node.operate("/v1/tokens", {"name": "v", "role": "viewer"})["token"]))


def test_the_audit_trail_says_who_signed_in_and_out_and_no_secret(node: Node) -> None:
    cookie = node.cookie()
    secret = cookie.partition("=")[2]
    page(node.operator_address, cookie, "/sign-out", "POST")
    told = node.operate("/v1/audit?before=1000000", method="GET")[:2]
    assert [(each["action"], each["actor"]) for each in told] == [
        ("session-ended", "token/admin"),
        ("session-begun", "token/admin"),
    ]
    named = {"name": "admin", "session": digest_of(secret)[:12]}
    assert [each["details"] for each in told] == [named, named]
    assert secret not in str(told)


def test_whoever_has_the_journal_cannot_sign_in_with_it(tmp_path: Path) -> None:
    """The secret is in no file, and no text of the journal is taken for one (S35)."""
    with Node(FLEET, data_dir=str(tmp_path / "data")) as node:
        cookie = node.cookie()
        name, _, secret = cookie.partition("=")
        stored = b"".join(file.read_bytes() for file in sorted((tmp_path / "data").iterdir()) if file.is_file())
        (digest,) = node.service.engine.state.sessions
        assert (secret.encode() in stored, digest.encode() in stored) == (False, True)
        assert digest == digest_of(secret)
        for stolen in (digest, digest[:43], digest_of(node.token)):
            assert front(node, f"{name}={stolen}") == SIGN_IN


def test_a_session_survives_kill_9(tmp_path: Path) -> None:
    """Nobody has to sign in again because a node was started again. The port is another one, and so is the name."""

    def begun() -> Server:
        server = Server(tmp_path / "data", FLEET)
        server.wait_until_serving()
        return server

    server = begun()
    secret = signed_in(server.operator, server.token).partition("=")[2]
    server.kill()
    server = begun()
    cookie = f"duenotice_session_{server.operator[1]}={secret}"
    assert page(server.operator, cookie) == (200, "")
    assert page(server.operator, cookie, "/sign-out", "POST")[0] == 303
    server.kill()
    server = begun()
    assert page(server.operator, f"duenotice_session_{server.operator[1]}={secret}") == SIGN_IN
    server.stop()


@pytest.fixture
def sick() -> Iterator[tuple[Node, Disk]]:
    """A node whose disk may be full."""
    disk = Disk()
    with Node(FLEET.read_text(), own_journal=disk) as node:
        yield node, disk


def test_people_sign_in_and_out_while_nothing_can_be_stored(
    sick: tuple[Node, Disk], browser: Browser, open_things: ExitStack
) -> None:
    """That is when they need the console. They are told, and it is stored when that works again."""
    node, disk = sick
    stays, ended = node.cookie(), node.cookie()
    disk.is_full = True
    people = Visitors(browser, node)
    shown = people.stranger()
    shown.goto(f"{people.origin}/sign-in")
    shown.get_by_label("Token").fill(node.token)
    shown.get_by_role("button", name="Sign in").click()
    expect(shown.get_by_role("heading", name="Fleet")).to_be_visible()
    why = "at this node alone, until it can be stored. The change could not be stored: The disk is full."
    expect(shown.get_by_role("alert").filter(has_text=f"You are signed in {why}")).to_be_visible()
    (new,) = [f"{each['name']}={each['value']}" for each in shown.context.cookies() if "session" in str(each["name"])]
    stream = live(open_things, node.operator_address, ended)
    told = ask(node, "POST", "/sign-out", cookie=ended)
    assert f"You are signed out {why}".encode() in told.body
    assert seconds_to_its_end(stream) < SOON
    assert [front(node, each) for each in (stays, new, ended)] == [(200, ""), (200, ""), SIGN_IN]
    disk.is_full = False
    wanted = {digest_of(each.partition("=")[2]) for each in (stays, new)}
    wait_until(lambda: set(node.service.engine.state.sessions) == wanted)
    assert [front(node, each) for each in (stays, new, ended)] == [(200, ""), (200, ""), SIGN_IN]


def test_who_signs_out_before_the_sign_in_could_be_stored_is_out_for_good(sick: tuple[Node, Disk]) -> None:
    node, disk = sick
    disk.is_full = True
    cookie = ask(node, "POST", "/sign-in", f"token={node.token}").headers["set-cookie"].partition(";")[0]
    page(node.operator_address, cookie, "/sign-out", "POST")
    disk.is_full = False
    wait_until(lambda: not node.service._console._sessions._to_store)
    assert (front(node, cookie), node.service.engine.state.sessions) == (SIGN_IN, {})


def test_a_session_is_known_at_every_node_and_ends_at_all_of_them(open_things: ExitStack) -> None:
    """Behind a load balancer each request may go to another node: signed in at one, read and act at the others."""
    nodes = [
        open_things.enter_context(each)
        for each in three_emulators(":memory:", fleet=str(FLEET), operator_listen="127.0.0.1:0")
    ]
    addresses = [each.service.operator_address for each in sorted(nodes, key=lambda each: each.service.engine.leads)]
    secret = signed_in(addresses[0], nodes[-1].service.token).partition("=")[2]

    def cookie(address: tuple[str, int]) -> str:
        return f"duenotice_session_{address[1]}={secret}"

    assert [page(each, cookie(each)) for each in addresses] == [(200, "")] * 3
    streams = [live(open_things, each, cookie(each)) for each in addresses]
    follows, leads = addresses[0], addresses[-1]
    assert page(follows, cookie(follows), "/vms/web-0/restart", "POST")[0] == 303
    (restarted,) = [each for each in nodes[0].history() if isinstance(each.transition, OperationPerformed)]
    assert restarted.actor.startswith("token/admin")
    assert page(leads, cookie(leads), "/sign-out", "POST") == (303, "/sign-in")
    assert [page(each, cookie(each)) for each in addresses] == [SIGN_IN] * 3
    assert all(seconds_to_its_end(each) < SOON for each in streams)


def test_a_browser_keeps_the_cookie_for_this_host_over_tls_alone(browser: Browser, tmp_path: Path) -> None:
    """`__Host-`, as a real browser takes it, and forgets it."""
    made = certificates(tmp_path)
    files = {"operator_cert_file": str(made.certificate), "operator_key_file": str(made.key)}
    with Node(**files) as node:
        origin = "https://{}:{}".format(*node.operator_address)
        visitor = browser.new_context(ignore_https_errors=True)
        shown = visitor.new_page()
        shown.goto(f"{origin}/sign-in")
        shown.get_by_label("Token").fill(node.token)
        shown.get_by_role("button", name="Sign in").click()
        expect(shown.get_by_role("heading", name="Fleet")).to_be_visible()
        (kept,) = visitor.cookies()
        assert kept["name"] == f"__Host-duenotice_session_{node.operator_address[1]}"
        assert (kept["httpOnly"], kept["secure"], kept["sameSite"], kept["path"]) == (True, True, "Strict", "/")
        shown.get_by_label("Signed in as admin").click()
        shown.get_by_role("button", name="Sign out").click()
        expect(shown.get_by_label("Token")).to_be_visible()
        assert visitor.cookies() == []
        visitor.close()


def test_who_signs_out_in_one_tab_is_told_in_the_others(node: Node, visitors: Visitors) -> None:
    """The open page shows that it is not live any more, and leads to the form."""
    visitors.allow(complaint="401")
    first = visitors.come()
    second = first.context.new_page()
    second.goto(f"{visitors.origin}/events")
    second.get_by_label("Signed in as admin").click()
    second.get_by_role("button", name="Sign out").click()
    expect(second.get_by_label("Token")).to_be_visible()
    expect(first.get_by_role("alert")).to_contain_text("You are no longer signed in")
    first.get_by_role("link", name="Sign in again").click()
    expect(first.get_by_label("Token")).to_be_visible()
