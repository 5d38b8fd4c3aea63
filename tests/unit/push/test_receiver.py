"""One receiver over real HTTP: what it is asked, and what its answers mean."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from duenotice.domain.fleet import Site
from duenotice.domain.subscription import PushFormat, Subscription
from duenotice.push.addresses import AllowedAddresses
from duenotice.push.receiver import NetworkPolicy, PushEnd, PushOutcome, ReceiverInThread, ReceiverThread, signature
from duenotice.wire.azure import EventChange
from tests.support.push_receiver import HANG, Delivery, PushReceiver
from tests.unit.domain.build import NOW, listening, schedule

EVENT = schedule(listening(), "alone")
CHANGE = EventChange(7, NOW, EVENT, EVENT)
SECRET = "0123456789abcdef"


@pytest.fixture
def receiver() -> Iterator[PushReceiver]:
    with PushReceiver() as running:
        yield running


def subscription(url: str, form: PushFormat = PushFormat.EVENTGRID) -> Subscription:
    return Subscription("U-1", url, form, NOW.at, NOW.at, secret=SECRET)


def asked(
    known: Subscription,
    work: Callable[[ReceiverInThread], Coroutine[Any, Any, PushOutcome]],
    allow: str = "127.0.0.0/8",
    timeout: float = 5.0,
) -> PushOutcome:
    """What comes of some work with a receiver."""

    async def run() -> PushOutcome:
        policy = NetworkPolicy(AllowedAddresses([allow]), ssl.create_default_context, timeout, ThreadPoolExecutor(2))
        receivers = ReceiverThread(policy)
        try:
            return await work(receivers.receiver(known))
        finally:
            await receivers.close()

    return asyncio.run(run())


def delivered(receiver: PushReceiver, answer: int, **more: Any) -> PushOutcome:
    receiver.answer = lambda _: answer
    return asked(subscription(receiver.url), lambda line: line.deliver(CHANGE, Site(), 3), **more)


@pytest.mark.parametrize(
    ("answer", "end", "reason"),
    [
        (200, PushEnd.TAKEN, ""),
        (202, PushEnd.TAKEN, ""),
        (204, PushEnd.TAKEN, ""),
        (301, PushEnd.FAILED, "The receiver answered 301: redirects are not followed."),
        (400, PushEnd.NOT_THIS, "The receiver answered 400."),
        (401, PushEnd.FAILED, "The receiver answered 401."),
        (404, PushEnd.FAILED, "The receiver answered 404."),
        (410, PushEnd.GONE, "The receiver answered 410: it is gone."),
        (413, PushEnd.NOT_THIS, "The receiver answered 413."),
        (429, PushEnd.FAILED, "The receiver answered 429."),
        (503, PushEnd.FAILED, "The receiver answered 503."),
        (HANG, PushEnd.FAILED, "No answer within 0.2 seconds."),
    ],
)
def test_what_an_answer_means(receiver: PushReceiver, answer: int, end: PushEnd, reason: str) -> None:
    """What it says beside its status is not repeated: it may be of a place that only this machine can reach."""
    assert delivered(receiver, answer, timeout=0.2 if answer == HANG else 5.0) == PushOutcome(end, reason)


def test_a_delivery_says_what_it_is_and_is_signed(receiver: PushReceiver) -> None:
    delivered(receiver, 200)
    (came,) = receiver.taken
    told = {name: came.headers[name] for name in ("aeg-event-type", "aeg-delivery-count", "Duenotice-Attempt")}
    assert told == {"aeg-event-type": "Notification", "aeg-delivery-count": "2", "Duenotice-Attempt": "3"}
    assert came.headers["Duenotice-Subscription"] == "U-1"
    assert came.is_signed(SECRET) and not came.is_signed("another-secret-16")
    assert not came._replace(body=came.body + b" ").is_signed(SECRET)


def test_the_signature_is_the_one_of_the_document() -> None:
    """So that nobody changes it unnoticed: receivers check it."""
    made = signature("0123456789abcdef", "1772366400", b"[]")
    assert made == "sha256=522e4a0f47a5fb9718f35cc2c7016922c968c91279105fb56fa5707a671a3ff2"


def test_a_receiver_that_is_not_there_is_tried_again() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        said = asked(subscription(url), lambda line: line.deliver(CHANGE, Site(), 1))
    assert said.end is PushEnd.FAILED
    assert said.reason.startswith("No answer: 127.0.0.1:")


@pytest.mark.parametrize("form", list(PushFormat))
def test_a_receiver_agrees_in_the_way_of_its_format(receiver: PushReceiver, form: PushFormat) -> None:
    said = asked(subscription(receiver.url, form), lambda line: line.validate(Site()))
    assert said == PushOutcome(PushEnd.TAKEN)
    assert receiver.asked[0].method == ("OPTIONS" if form is PushFormat.CLOUDEVENTS else "POST")


@pytest.mark.parametrize("form", list(PushFormat))
def test_any_other_answer_is_not_an_agreement(
    receiver: PushReceiver, form: PushFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that answers 200 to everything has not agreed to anything."""
    nothing: tuple[bytes, dict[str, str]] = (
        b'{"validationResponse":"guess"}',
        {"WebHook-Allowed-Origin": "other.example"},
    )
    monkeypatch.setattr(receiver, "_agreement", lambda _: nothing)
    said = asked(subscription(receiver.url, form), lambda line: line.validate(Site()))
    assert (said.end, "did not answer with" in said.reason) == (PushEnd.GONE, True)


def test_who_is_in_trouble_when_asked_is_asked_again(receiver: PushReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    def trouble(_: Delivery) -> Any:
        raise OSError

    monkeypatch.setattr(receiver, "_agreement", trouble)
    said = asked(subscription(receiver.url), lambda line: line.validate(Site()))
    assert said.end is PushEnd.FAILED


def test_the_connection_goes_to_the_address_that_was_checked(
    receiver: PushReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that means something else by the time of the connection is not asked again what it means."""
    asked_for: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: str, *args: Any, **more: Any) -> Any:
        asked_for.append(host)
        return real("127.0.0.1" if len(asked_for) == 1 else "127.0.0.2", *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    url = f"http://receiver.example:{receiver.port}/"
    said = asked(subscription(url), lambda line: line.deliver(CHANGE, Site(), 1), allow="127.0.0.1/32")
    assert (said.end, asked_for) == (PushEnd.TAKEN, ["receiver.example"])
    assert receiver.taken[0].headers["Host"] == f"receiver.example:{receiver.port}"


def test_a_resolver_that_hangs_keeps_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often we give up waiting for it."""
    begun, over, asked_for = threading.Event(), threading.Event(), list[str]()

    def hanging(host: str, *_: Any, **__: Any) -> Any:
        asked_for.append(host)
        begun.set()
        over.wait(30)
        raise OSError("over")

    async def thrice(line: ReceiverInThread) -> PushOutcome:
        await asyncio.gather(line.deliver(CHANGE, Site(), 1), line.deliver(CHANGE, Site(), 1))
        said = await line.deliver(CHANGE, Site(), 2)
        begun.wait(30)  # on a busy machine the thread may begin only now
        over.set()
        return said

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    said = asked(subscription("http://receiver.example/"), thrice, timeout=0.05)
    assert (said.reason, asked_for) == ("No answer within 0.05 seconds.", ["receiver.example"])


def test_an_address_that_is_never_allowed_ends_it(receiver: PushReceiver) -> None:
    """It is written out, so it will not be another one later."""
    url = receiver.url.replace("localhost", "127.0.0.1")
    said = asked(subscription(url), lambda line: line.deliver(CHANGE, Site(), 1), allow="127.0.0.2/32")
    assert (said.end, receiver.deliveries) == (PushEnd.GONE, [])
    assert said.reason == "127.0.0.1 is loopback, and messages may not go there."


def test_a_name_that_leads_to_us_for_a_moment_is_tried_again(
    receiver: PushReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is paused for a resolver that was wrong once; the next try asks it again."""
    answers = ["169.254.169.254", "127.0.0.1"]

    def found(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers.pop(0), receiver.port))]

    async def twice(line: ReceiverInThread) -> PushOutcome:
        with monkeypatch.context() as patched:
            patched.setattr("duenotice.push.addresses._is_written_out", lambda _: False)
            patched.setattr(socket, "getaddrinfo", found)
            first = await line.deliver(CHANGE, Site(), 1)
            assert first.end is PushEnd.FAILED
            assert first.reason == "169.254.169.254 is link-local, and messages may not go there."
            return await line.deliver(CHANGE, Site(), 2)

    receiver.answer = lambda _: 200
    assert asked(subscription(receiver.url), twice) == PushOutcome(PushEnd.TAKEN)
    assert len(receiver.deliveries) == 1
