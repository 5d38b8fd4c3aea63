"""What a load balancer hears from a follower."""

import pytest

from duenotice.follower.health import Wellbeing, answer

WELL = Wellbeing("http://a:1", "", True)
CUT_OFF = Wellbeing("http://a:1", "The node cannot be asked.", True)
WITHOUT = CUT_OFF._replace(may_answer=False)


def request(target: str, method: str = "GET") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


CASES = {
    "it lives": ("/livez", WITHOUT, 200, '{"status":"ok"}'),
    "it answers": ("/readyz", WELL, 200, '{"status":"ok"}'),
    "it may still answer": ("/readyz", CUT_OFF, 200, '{"status":"ok"}'),
    "it may not": ("/readyz", WITHOUT, 503, "may not answer VMs now. The node cannot be asked."),
    "in words": ("/readyz?verbose", WELL, 200, "[+]right ok\n[+]node http://a:1 ok\nreadyz check passed\n"),
    "trouble": ("/readyz?verbose", CUT_OFF, 200, "[-]node http://a:1: The node cannot be asked.\nreadyz check passed"),
    "no right": ("/readyz?verbose=1", WITHOUT, 503, "[-]right it may not answer VMs now\n"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_load_balancer_hears_how_the_follower_itself_is(case: str) -> None:
    target, now, status, said = CASES[case]
    head, _, body = (answer(request(target), now) or b"").decode().partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert f"\r\nContent-Length: {len(body.encode())}\r\n" in head
    assert said in body
    assert ("Retry-After" in head) == (status == 503)


def test_a_head_is_the_same_without_its_body() -> None:
    assert (answer(request("/readyz", "HEAD"), WELL) or b"").endswith(b"\r\n\r\n")


@pytest.mark.parametrize("target", ["/", "/v1/fleet", "/livezz", "/v1/livez"])
def test_all_else_is_for_the_node(target: str) -> None:
    assert answer(request(target), WELL) is None
    assert answer(request("/livez", "POST"), WELL) is None
