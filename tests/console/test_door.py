"""Who may come in, from where, and what the console says in its headers."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Visitors
from tests.support.node import Answer, Node

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def ask(node: Node, method: str, path: str, body: str = "", cookie: str = "", **headers: str) -> Answer:
    """One plain request, as a browser with that cookie would send it."""
    given = {name.replace("_", "-"): value for name, value in headers.items()} | FORM
    if cookie:
        given["Cookie"] = cookie
    connection = http.client.HTTPConnection(*node.operator_address, timeout=10)
    try:
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def test_a_token_opens_the_console_and_leads_where_one_wanted_to_go(node: Node, visitors: Visitors) -> None:
    """Who is not signed in is sent to the form, and from there on to the page asked for."""
    page = visitors.stranger()
    page.goto(f"{visitors.origin}/audit?actor=token/admin")
    page.get_by_label("Token").fill(node.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Audit")).to_be_visible()
    assert page.url == f"{visitors.origin}/audit?actor=token/admin"
    page.get_by_label("Signed in as admin").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert page.goto(f"{visitors.origin}/") and page.url.endswith("/sign-in?next=/")


def test_a_wrong_token_is_told_so(visitors: Visitors) -> None:
    """The form stays, with a word."""
    visitors.allow(complaint="401")
    page = visitors.stranger()
    page.goto(f"{visitors.origin}/sign-in")
    page.get_by_label("Token").fill("dn_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("The service does not know this token.")


def test_the_cookie_is_out_of_reach_and_lives_for_a_shift(node: Node) -> None:
    """No script reads it, no other site sends it."""
    answer = ask(node, "POST", "/sign-in", urlencode({"token": node.token}))
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Max-Age=43200" in cookie


@pytest.mark.parametrize(
    "wanted",
    ["//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example", "javascript:alert(1)", ""],
)
def test_signing_in_never_leads_elsewhere(node: Node, wanted: str) -> None:
    """Whatever an address says where to go next."""
    answer = ask(node, "POST", "/sign-in", urlencode({"token": node.token, "next": wanted}))
    assert (answer.status, answer.headers["location"]) == (303, "/")


def test_the_cookie_opens_no_door_of_the_api(node: Node) -> None:
    """The API wants the token itself, so no form of another site can use it there."""
    cookie = node.cookie()
    assert ask(node, "GET", "/v1/vms", cookie=cookie).status == 401
    assert ask(node, "POST", "/v1/vms/web-0/restart", cookie=cookie).status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 303),
        ({"Sec_Fetch_Site": "none"}, 303),
        ({}, 303),
    ],
)
@pytest.mark.parametrize("path", ["/vms/web-0/restart", "/sign-out"])
def test_only_forms_of_the_console_itself_count(node: Node, path: str, headers: dict[str, str], status: int) -> None:
    """A browser says where a form was, in one header or the other."""
    assert ask(node, "POST", path, cookie=node.cookie(), **headers).status == status
    restarted = path.startswith("/vms") and status == 303
    assert len(node.events("web-0")) == restarted


@contextmanager
def other_site(html: str) -> Iterator[str]:
    """Another site with one page."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


def test_a_form_of_another_site_is_refused_in_a_real_browser(node: Node, visitors: Visitors) -> None:
    """Somebody who is signed in and visits a bad page restarts nothing."""
    page = visitors.come()
    visitors.allow(complaint="403")
    form = f'<form method="post" action="{visitors.origin}/vms/web-0/restart"><button>Free money</button></form>'
    with other_site(form) as site:
        visitors.allow(origin=site)
        page.goto(site)
        page.get_by_role("button").click()
        expect(page.get_by_role("heading", name="This came from another site.")).to_be_visible()
    assert node.events("web-0") == []


def test_a_name_without_https_is_as_good_and_as_safe(node: Node, visitors: Visitors) -> None:
    """There browsers tell where a form was by Origin alone: ours are taken, those of others refused."""
    origin = f"http://console.test:{node.operator_address[1]}"
    visitors.allow(origin=origin, complaint="403")
    page = visitors.stranger()
    page.goto(f"{origin}/sign-in?next=/vms/web-0")
    page.get_by_label("Token").fill(node.token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Restart").click()
    expect(page.locator(".head .state")).to_have_text("scheduled")
    with other_site(
        f'<form method="post" action="{origin}/vms/web-0/redeploy"><button>Free money</button></form>'
    ) as site:
        visitors.allow(origin=site)
        page.goto(site)
        page.get_by_role("button").click()
        expect(page.get_by_role("heading", name="This came from another site.")).to_be_visible()
    assert [event["EventType"] for event in node.events("web-0")] == ["Reboot"]


@pytest.mark.parametrize("path", ["/", "/sign-in", "/events", "/nowhere", "/static/console.js"])
def test_every_answer_keeps_everything_else_out(node: Node, path: str) -> None:
    """Scripts and styles of ours only, no frames, nothing kept."""
    headers = ask(node, "GET", path, cookie=node.cookie()).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert headers["cache-control"] == ("no-cache" if path.startswith("/static") else "no-store")
    assert headers["x-content-type-options"] == "nosniff"


ACTS = [
    "/vms/web-0/restart", "/vms/web-0/delete", "/hosts/host-1/fail", "/hosts/host-1/drain", "/maintenances",
    "/clock/advance", "/scenarios/user-reboot",
]  # fmt: skip


def test_a_viewer_has_no_buttons_and_is_refused_without_them(node: Node, visitors: Visitors) -> None:
    """What one may not do is not shown, and posting it anyway changes nothing."""
    token, event_id = visitors.with_role("viewer"), node.schedule("Reboot", "web-0")
    plan = node.operate("/v1/maintenances", {"on": ["vm=db-0"], "type": "Reboot"})["id"]
    page = visitors.come("/", token)
    paths = ["/", "/vms/web-0", "/hosts/host-1", f"/events/{event_id}", f"/maintenances/{plan}", "/maintenances"]
    for path in [*paths, "/scenarios", "/scenarios/user-reboot", "/groups/set/web"]:
        page.goto(visitors.origin + path)
        expect(page.locator("#main h1")).to_be_visible()
        assert page.locator("#main form[method=post]").count() == 0, path
        assert page.get_by_role("link", name="Plan a maintenance").count() == 0, path
    cookie = node.cookie(token)
    before = node.operate("/v1/fleet", method="GET")["position"]
    acts = [*ACTS, f"/events/{event_id}/approve", f"/maintenances/{plan}/pause"]
    bodies = {"/maintenances": "on=set%3Dweb&type=Reboot", "/clock/advance": "value=1h"}
    assert {ask(node, "POST", act, bodies.get(act, ""), cookie).status for act in acts} == {403}
    assert node.operate("/v1/fleet", method="GET")["position"] == before


def test_a_revoked_token_is_out(node: Node, visitors: Visitors) -> None:
    """An open page says so, and the form too."""
    visitors.allow(complaint="401")
    made = node.operate("/v1/tokens", {"name": "temp", "role": "viewer"})
    page = visitors.come("/", made["token"])
    node.operate(f"/v1/tokens/{made['id']}", method="DELETE")
    expect(page.get_by_role("alert")).to_contain_text(
        "no longer signed in: your session has ended, or its token was revoked"
    )
    page.get_by_role("link", name="Sign in again").click()
    expect(page.get_by_label("Token")).to_be_visible()
    expect(page.get_by_text("no longer signed in")).to_be_visible()


def test_what_is_not_there_has_a_page_too(node: Node, visitors: Visitors) -> None:
    """With a way back."""
    visitors.allow(complaint="404")
    page = visitors.come("/vms/nobody")
    expect(page.get_by_role("heading")).to_contain_text("nobody")
    page.get_by_role("link", name="To the fleet").click()
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    assert ask(node, "GET", "/nowhere", cookie=node.cookie()).status == 404
