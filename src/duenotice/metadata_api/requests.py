"""What a request asks: paths, queries and checks (A02 to A07); and what is remembered of it, by its bytes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote

from duenotice.errors import Malformed
from duenotice.metadata_api.http1 import RequestHead, parse_head
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.responses import CLOSE, KEEP_ALIVE, Answer, error, json
from duenotice.wire.api_versions import API_VERSIONS, EVERY_VERSION, ApiVersion, versions_of
from duenotice.wire.instance import ANSWERED_VERSIONS, INSTANCE_VERSIONS
from duenotice.wire.spans import parse_duration

_ANY = "*"


@dataclass(frozen=True, slots=True)
class Poll:
    """Show me my document; unless I have it (`known` are entity tags), in which case I may `wait` for a new one."""

    version: ApiVersion
    known: frozenset[str] = frozenset()
    wait: float = 0.0

    def has(self, incarnation: int) -> bool:
        """Whether the caller has this document already (A10)."""
        return str(incarnation) in self.known or _ANY in self.known


@dataclass(frozen=True, slots=True)
class Approve:
    """Let the events named in the body start."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Tell me about myself (A12): all of it, or what is under a path."""

    path: tuple[str, ...] = ()
    as_text: bool = False


@dataclass(frozen=True, slots=True)
class ListVersions:
    """Which api-versions are there?"""


Query = Poll | Approve | Describe | ListVersions | Answer
"""An `Answer` stands for a request that is refused from every caller."""


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A question and how to send its answer.

    `connection` is the header line that goes with it; `plain` marks the poll that most VMs send, once a second.
    """

    query: Query
    closes: bool = False
    connection: bytes = b""
    plain: ApiVersion | None = None


def parsed(head: RequestHead, query: Query) -> ParsedRequest:
    """The question, with how its head wants the answer to be sent."""
    closes = not head.keep_alive
    connection = CLOSE if closes else b"" if head.minor else KEEP_ALIVE
    if isinstance(query, Answer) and head.method == "HEAD":
        query = query.without_body()
    plain = query.version if isinstance(query, Poll) and not query.known else None
    return ParsedRequest(query, closes, connection, plain)


MAX_WAIT = 300.0
"""Seconds; a longer wait is cut to this."""

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_query(query: str) -> dict[str, list[str]]:
    """Parameters by name, in lower case, each with all the values it was given."""
    parameters: dict[str, list[str]] = {}
    for piece in filter(None, query.split("&")):
        name, _, value = piece.partition("=")
        parameters.setdefault(unquote(name).lower(), []).append(unquote(value))
    return parameters


def parse_wait(text: str) -> float | None:
    """Seconds from `500ms`, `30s`, `2m` or `30`; None when it is not a span of time."""
    try:
        return min(parse_duration(text), MAX_WAIT)
    except Malformed:
        return None


def parse_tags(values: list[str]) -> frozenset[str]:
    """What `If-None-Match` names, bare, quoted or weak (A10)."""
    tags = (tag.strip().removeprefix("W/").strip('"') for value in values for tag in value.split(","))
    return frozenset(filter(None, tags))


def is_newer(version: str, known: tuple[str, ...]) -> bool:
    """Whether this could be an api-version of the future."""
    return _DATE.fullmatch(version) is not None and version > max(known)


_RELAYED = ("x-forwarded-for", "forwarded", "x-real-ip", "via", "origin")
_FETCH = "sec-fetch-"
_NODE_FETCH = {"sec-fetch-mode": ["cors"]}
"""What the `fetch` of Node sends of these; a browser never sends the mode alone (decision 0008)."""


@dataclass(frozen=True, slots=True)
class Route:
    """One path: what each method asks, which api-versions it knows, which of them need no header (A03).

    With `version` it answers in that one, whatever the query says.
    """

    asks: Mapping[str, Callable[["Target"], Query]]
    versions: tuple[str, ...] = ()
    newest: tuple[str, ...] = ()
    headerless: frozenset[str] = frozenset()
    has_children: bool = False
    newer_is_not_found: bool = False
    version: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A request on a known path, parsed for the checks."""

    route: Route
    head: RequestHead
    children: tuple[str, ...]
    parameters: dict[str, list[str]]

    def parameter(self, name: str) -> str:
        """The one value of a parameter; empty when it was not given, or more than once."""
        values = self.parameters.get(name, [])
        return values[0] if len(values) == 1 else ""

    @property
    def version(self) -> str:
        """The api-version asked for."""
        return self.route.version or self.parameter("api-version")


def _poll(target: Target) -> Query:
    wait = parse_wait(target.parameter("wait")) if "wait" in target.parameters else 0.0
    if wait is None:
        return error(400, "Bad request. wait is malformed. Use 500ms, 30s, 2m or a number of seconds.")
    known = parse_tags(target.head.fields.get("if-none-match", []))
    return Poll(_VERSIONS[target.version], known, wait)


def _approve(target: Target) -> Query:
    return Approve()


def _describe(target: Target) -> Query:
    form = (target.parameter("format") or "json").lower()
    if form not in ("json", "text"):
        return error(400, "Bad request. format is unknown. Use format=json or format=text.")
    return Describe(target.children, as_text=form == "text")


def _list_versions(target: Target) -> Query:
    return ListVersions()


_VERSIONS = {version.name: version for version in EVERY_VERSION}
_EVENTS = "/metadata/scheduledevents"
_OLD_EVENTS = "/metadata/latest/scheduledevents"
"""The path of the preview of 2016, which had no api-version (A14)."""


def _routes(versions: tuple[ApiVersion, ...]) -> dict[str, Route]:
    """The table of paths of a service that has these api-versions of the events."""
    names = tuple(version.name for version in versions)
    events = Route(
        {"GET": _poll, "POST": _approve},
        versions=names,
        newest=names[:-4:-1],
        headerless=frozenset(version.name for version in versions if not version.needs_header),
        newer_is_not_found=True,
    )
    return {
        _EVENTS: events,
        "/metadata/instance": Route(
            {"GET": _describe},
            versions=tuple(sorted({*ANSWERED_VERSIONS, *names})),
            newest=INSTANCE_VERSIONS[:-4:-1],
            has_children=True,
        ),
        "/metadata/versions": Route({"GET": _list_versions}),
    }


class Router:
    """Turns heads into asks; what may be refused without knowing the caller is refused here."""

    def __init__(self, options: MetadataOptions) -> None:
        self._routes = _routes(versions_of(options.spot_rebalance))
        self._old_events = replace(self._routes[_EVENTS], version=API_VERSIONS[0].name)
        unknown_version = _unknown_version if options.newer_versions_400 else _newer_is_not_found
        self._checks: tuple[Callable[[Target], Answer | None], ...] = (
            _other_method,
            _relayed,
            _no_header,
            _repeated_parameter,
            unknown_version,
        )

    def parse(self, head: RequestHead) -> ParsedRequest:
        """What a request asks, or why it is refused."""
        return parsed(head, self._query(head))

    def _query(self, head: RequestHead) -> Query:
        target = self._target(head)
        if target is None:
            return error(404, f"Not found. Ask for {' or '.join(self._routes)}.")
        refusals = (check(target) for check in self._checks)
        return next(filter(None, refusals), None) or target.route.asks[head.method](target)

    def _target(self, head: RequestHead) -> Target | None:
        """The row of the table for a path, in any case and with one slash at its end or none (A02)."""
        path = head.path.lower().removesuffix("/")
        if path == _OLD_EVENTS:
            return Target(self._old_events, head, (), parse_query(head.query))
        parts = path.split("/")
        route = self._routes.get("/".join(parts[:3]))
        children = tuple(parts[3:])
        if route is None or (children and not route.has_children):
            return None
        return Target(route, head, children, parse_query(head.query))


def _other_method(target: Target) -> Answer | None:
    allowed = ", ".join(target.route.asks)
    if target.head.method in target.route.asks:
        return None
    return error(405, f"Method not allowed. Use {' or '.join(target.route.asks)}.", f"Allow: {allowed}")


def _relayed(target: Target) -> Answer | None:
    """A05: a request that was passed on by a proxy, or that a web page made a browser send."""
    fields = target.head.fields
    fetched = {name: values for name, values in fields.items() if name.startswith(_FETCH)}
    signs = [name for name in fields if name in _RELAYED or (name in fetched and fetched != _NODE_FETCH)]
    if not signs:
        return None
    return error(400, f"Bad request. Relayed requests are refused. Ask directly, without {signs[0]}.")


def _no_header(target: Target) -> Answer | None:
    values = target.head.fields.get("metadata", [])
    if target.version in target.route.headerless or [value.lower() for value in values] == ["true"]:
        return None
    return error(400, "Bad request. Required metadata header not specified")


def _repeated_parameter(target: Target) -> Answer | None:
    repeated = [name for name, values in target.parameters.items() if len(values) > 1]
    return error(400, f"Bad request. Give {repeated[0]} only once.") if repeated else None


def _unknown_version(target: Target) -> Answer | None:
    if not target.route.versions or target.version in target.route.versions:
        return None
    message = "Bad request. api-version is invalid or was not specified in the request. Use one of the newest-versions."
    return json(400, {"error": message, "newest-versions": target.route.newest})


def _newer_is_not_found(target: Target) -> Answer | None:
    """A04: real clients take 404 as "not here yet", and ask for an older version; anything else ends them."""
    if target.route.newer_is_not_found and is_newer(target.version, target.route.versions):
        return error(404, f"Not found. The newest api-version here is {target.route.newest[0]}.")
    return _unknown_version(target)


MAX_ENTRIES = 4096
MAX_REQUEST = 2048

SHORT = 470
"""Bytes that most polls do not have; Python finds room for so many much faster than for thousands."""

_END = b"\r\n\r\n"


class RequestCache:
    """From the bytes of a request to what it asks; connections read `known` directly, the rest happens here.

    To read `much` is enough for each request that is known, if it is short, and shows whether there is more. It is not
    more than that because Python moves what it has read when that is far less than it had made room for.
    """

    __slots__ = ("_room", "_router", "known", "read_size")

    def __init__(self, router: Router) -> None:
        self._router = router
        self._room = MAX_ENTRIES
        self.known: dict[bytes, ParsedRequest] = {}
        self.read_size = SHORT

    def add(self, data: bytes) -> ParsedRequest | None:
        """What these bytes ask, if they are exactly one GET without a body; None leaves them to the reader."""
        if len(data) > MAX_REQUEST or not data.startswith(b"GET ") or data.find(_END) != len(data) - len(_END):
            return None
        try:
            head = parse_head(data[: -len(_END)])
        except Malformed:
            return None
        if head.body_length != 0:
            return None
        request = self._router.parse(head)
        self._remember(data, request)
        return request

    def _remember(self, data: bytes, request: ParsedRequest) -> None:
        if len(self.known) >= self._room:
            self.known.clear()
        if self._room:
            self.read_size = min(max(len(data) + 1, self.read_size if self.known else 0), SHORT)
            self.known[data] = request

    def close(self) -> None:
        """Forget everything and store nothing more, so that each request takes the slow path."""
        self._room = 0
        self.known.clear()
