"""`webhook`: tells people or programs over HTTP, with a text of your own; retries while there is notice left."""

import asyncio
import json
from string import Template
from typing import Any, Literal

from msgspec import Struct

from duenotice.agent.handlers.base import Handler, HandlerContext, HandlerFailed, TryAgain, seconds_left
from duenotice.agent.handlers.secrets import read_secret, trusting
from duenotice.backoff import Backoff
from duenotice.errors import Malformed, Unavailable
from duenotice.http.fetch import fetch, parse_url
from duenotice.wire.seen_documents import event_to_json

PLACEHOLDERS = ("id", "type", "status", "not_before", "resources", "source", "description", "duration", "vm", "phase")
PREPARE = '{"text": "$vm: $type of $resources, not before $not_before. $description Preparing."}'
RECOVER = '{"text": "$vm: $type of $resources is over. Back in service."}'
ATTEMPT = 10.0
AGAIN = Backoff(0.5, 8.0)
ANSWER_READ = 8192
"""Bytes of an answer: only its status counts, however long it is."""


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """`text` is the key that chats such as Slack and Teams read. An empty body means: send nothing at that moment."""

    url: str = ""
    url_file: str = ""
    """A file with the address, if the address is a secret."""
    prepare: str = PREPARE
    """What is sent before the event; words with `$` are replaced."""
    recover: str = RECOVER
    """What is sent when it is over."""
    method: Literal["POST", "PUT"] = "POST"
    content_type: str = "application/json"
    headers: dict[str, str] = {}
    secret_headers: dict[str, str] = {}
    """Maps the name of a header to the file with its value."""
    ca_file: str = ""
    """PEM file with the CA of the address, if it is not one of the system's."""
    proxy: str = ""
    """The proxy that the way out needs, as `http://HOST:PORT`; none is taken from the environment."""

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.url_file):
            raise ValueError("give `url` or `url_file`")
        try:
            parse_url(self.url or "http://in.a.file/")
            if self.proxy and parse_url(self.proxy).secure:
                raise Malformed("The proxy is asked over http.", hint="Write http://HOST:PORT.")
        except Malformed as error:
            raise ValueError(error.message) from None
        for text in (self.prepare, self.recover):
            _check_template(text, self.content_type)


class Webhook(Handler[Options]):
    """Says once that the event is over, and only if it said before that the event is coming."""

    options = Options

    async def prepare(self, context: HandlerContext) -> None:
        await context.note("told", True)
        await self._send(self._options.prepare, "prepare", context)

    async def recover(self, context: HandlerContext) -> None:
        if context.notes.get("told"):
            await self._send(self._options.recover, "recover", context)
            await context.note("told", False)

    def files(self) -> list[str]:
        options = self._options
        return [options.url_file, options.ca_file, *options.secret_headers.values()]

    async def _send(self, template: str, phase: str, context: HandlerContext) -> None:
        if not template:
            return
        body = render(template, self._options.content_type, phase, context).encode()
        for pause in AGAIN.pauses():
            try:
                await self._attempt(body, context)
                return
            except Unavailable:
                if seconds_left(context) <= pause:
                    raise
            await asyncio.sleep(pause)

    async def _attempt(self, body: bytes, context: HandlerContext) -> None:
        options = self._options
        secret = {name: read_secret(path) for name, path in options.secret_headers.items()}
        answer = await fetch(
            options.url or read_secret(options.url_file),
            method=options.method,
            body=body,
            headers={"Content-Type": options.content_type, **options.headers, **secret},
            timeout=min(ATTEMPT, seconds_left(context)),
            trust=trusting(options.ca_file),
            proxy=options.proxy,
            longest=ANSWER_READ,
            cut=True,  # only the status counts
        )
        if not 200 <= answer.status < 300:
            again = answer.status >= 500 or answer.status in (408, 429)
            problem = f"The webhook answered {answer.status}."
            raise (TryAgain if again else HandlerFailed)(
                problem, hint="Redirects are not followed; name the final URL."
            )


def render(template: str, content_type: str, phase: str, context: HandlerContext) -> str:
    """The body with its placeholders filled in; in JSON they are escaped, so that no name can end a string."""
    values = _values(phase, context)
    if "json" in content_type:
        values = {key: json.dumps(value)[1:-1] for key, value in values.items()}
    return Template(template).substitute(values)


def _values(phase: str, context: HandlerContext) -> dict[str, str]:
    shown: dict[str, Any] = event_to_json(context.event)
    return {
        "id": shown["EventId"],
        "type": shown["EventType"],
        "status": shown["EventStatus"],
        "not_before": shown["NotBefore"] or "now",
        "resources": ", ".join(shown["Resources"]),
        "source": shown["EventSource"],
        "description": shown["Description"],
        "duration": str(shown["DurationInSeconds"]),
        "vm": context.vm,
        "phase": phase,
    }


def _check_template(text: str, content_type: str) -> None:
    template = Template(text)
    if not template.is_valid():
        raise ValueError("a `$` in a body must begin a placeholder; write `$$` for a dollar")
    if unknown := set(template.get_identifiers()) - set(PLACEHOLDERS):
        raise ValueError(f"${sorted(unknown)[0]} is not a placeholder; there are {', '.join(PLACEHOLDERS)}")
    if text and "json" in content_type:
        try:
            json.loads(template.substitute(dict.fromkeys(PLACEHOLDERS, "0")))
        except ValueError as error:
            raise ValueError(f"a body is not JSON: {error}") from None
