"""docs/bounds.md: what a request may be, and what may be under way, at each port; from the tables of the ports."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from duenotice.azure_api.app import LONGEST_TARGET, MOST_LARGE, MOST_LARGE_OF_ONE, AzureApi
from duenotice.azure_api.signing_keys import SigningKeys
from duenotice.bootstrap import acceptor, operator_server, places
from duenotice.bootstrap.acceptor import LONGEST_HELLO, MOST_OPEN, OPEN_SECONDS, SHARE
from duenotice.bootstrap.known_addresses import KEPT, Who
from duenotice.bounds import LONGEST_ITEM, PAGE_BYTES, PAGE_ROWS, SIGNING_IN, SMALL, CallBounds
from duenotice.console.app import Console
from duenotice.console.session import Sessions
from duenotice.metadata_api import http1
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.sessions import UNKNOWN_CALLERS
from duenotice.operator_api.app import OperatorApi
from duenotice.operator_api.tokens import asked_with
from duenotice.settings import ServeSettings
from duenotice.system import SecretFile
from duenotice.testkit.emulator import Emulator
from tools.references.words import code, head, table

INTRO = """
What is larger, longer or more is refused, and costs next to nothing: who asks is looked at first, then how large it is,
and only then what it says (S24, S29 of the [promises](promises.md)). Settings can change the numbers for VMs; see
[settings](settings.md). What a fleet and its events may be is in [operating](operating.md#what-has-a-limit).
"""
KIB = 1024
NOWHERE = Path("/nonexistent/keys")
"""Nothing is asked of the API that is described."""


def page() -> str:
    """The whole page."""
    with Emulator(default_vm="me") as emulator:
        engine = emulator.service.engine
        operator = OperatorApi(engine, emulator.service.ticker)
        console = Console(operator.app(), asked_with, Sessions(engine))
        azure = AzureApi(engine, SigningKeys(SecretFile(NOWHERE)))
        calls = [(f"{call.method} {call.path}", call.bounds) for call in operator.calls if call.method != "GET"]
        forms = [(f"POST {form.path}", form.bounds) for form in console.pages() if form.method == "POST"]
        asked = [(f"{call.method} {call.path}", call.bounds) for call in azure.calls]
    return "\n".join(
        (
            head("Bounds", "the tables of the ports") + INTRO,
            "## The VMs' port\n",
            table(("what", "at the most"), [*_vms()]),
            "## The operator's port and the Azure door\n",
            table(("what", "at the most"), [*_ports()]),
            "## Bodies at the operator's API\n",
            _bodies(calls),
            "## Forms of the console\n",
            _bodies([*forms, ("POST /sign-in", SIGNING_IN)], fields=True),
            "## Calls of the Azure door\n",
            _bodies(asked),
            f"A path or a query has at most {LONGEST_TARGET:,} bytes. {MOST_LARGE} answers that may be larger than\n"
            f"{size(SMALL.answer)} are under way at the same time, {MOST_LARGE_OF_ONE} of one token.\n",
            "## Answers\n",
            f"A page of a list ends at {PAGE_ROWS:,} rows or at {size(PAGE_BYTES)}. If its first item alone is larger, "
            f"the page has that item; the Azure door refuses one of more than {size(LONGEST_ITEM)}.\n\n"
            f"What has more than {size(SMALL.answer)} is made aside from the loop that answers VMs, or in small turns "
            "of it, and written in pieces of that size, the next one when the client has taken the last.\n",
        )
    )


def _vms() -> Iterable[tuple[str, str]]:
    options, settings = MetadataOptions(), ServeSettings()
    yield "requests a second of one VM, and approvals", f"{options.throttle:g} each"
    yield "connections, and of one address", f"{settings.max_connections:,}, {settings.connections_per_address}"
    yield "head of a request", f"{size(http1.MAX_HEAD)}, {http1.MAX_PIECES} lines, parameters or commas"
    yield "body of a request", size(http1.MAX_BODY)
    yield "time for a request", f"{options.request_seconds:g} s"
    yield "requests a second of all unknown addresses", f"{UNKNOWN_CALLERS:g} times those of one VM"


def _ports() -> Iterable[tuple[str, str]]:
    rooms = (places.PROBING, places.ADMINS, places.TOKENS, places.STRANGERS)
    probing, admins, tokens, strangers = (f"{room.places}, {room.each}" for room in rooms)
    yield "connections, counted from accept", f"{acceptor.MOST_CONNECTIONS}"
    yield "processor time for TLS handshakes of a port", f"{SHARE:.0%}"
    yield "handshakes that are open at a time", f"what costs {OPEN_SECONDS:g} s, {MOST_OPEN}"
    yield "addresses that go before strangers: of admins, of other tokens, of followers, of probes", _known()
    yield "hello of a handshake", f"{size(LONGEST_HELLO)}, one record"
    yield "head of a request", f"{size(operator_server.LONGEST_HEAD)}, {operator_server.MOST_HEADERS} lines"
    yield "requests that wait on a connection for the answer to one before them", f"{operator_server.MOST_WAITING}"
    yield "pieces of a body", f"{operator_server.MOST_PIECES:,}, and one more for each KiB"
    yield "bytes that are thrown away after a refusal", size(operator_server.MOST_READ_ON)
    yield "time for a handshake, a head, a body, or until something of an answer is read", _twice()
    yield "probes under way at the operator's port, and from one address", probing
    yield "requests of admins, and of one token", admins
    yield "requests of other tokens, and of one", tokens
    yield "requests without a token, and from one address", strangers
    each, together = places.PROBED, places.PROBED * places.PROBED_TOGETHER
    yield "probes a second that are looked after, and from one address", f"{together:g}, {each:g}"
    each, together = places.REQUESTS, places.REQUESTS * places.TOGETHER
    yield "requests a second without a token, and from one address", f"{together:g}, {each:g}"


def _known() -> str:
    return "; ".join(f"{KEPT[who].most} for {KEPT[who].seconds / 60:,g} min" for who in Who)


def _twice() -> str:
    seconds = operator_server.PATIENCE_SECONDS
    return f"{seconds:g} to {2 * seconds:g} s"


def _bodies(rows: Sequence[tuple[str, CallBounds]], fields: bool = False) -> str:
    """Those whose bounds are not those of most, and a last row for all others."""
    columns = ("call", "body", "fields") if fields else ("call", "body")

    def row(name: str, bounds: CallBounds) -> tuple[str, ...]:
        return (name, size(bounds.body), f"{bounds.fields}") if fields else (name, size(bounds.body))

    told = [row(code(name), bounds) for name, bounds in rows if row("", bounds) != row("", SMALL)]
    return table(columns, [*told, row("all others", SMALL)])


def size(count: int) -> str:
    """`64 KiB`."""
    return f"{count // KIB**2} MiB" if count % KIB**2 == 0 else f"{count // KIB} KiB"
