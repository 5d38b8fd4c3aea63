"""Kinds of values on the command line: each is checked where the flag can be named, before anything is done."""

from datetime import datetime

import click

EVENT_TYPE = click.Choice(["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"], case_sensitive=False)


class _Span(click.ParamType[str]):
    """A span of time as people write it; it stays a text, because messages show it and the service reads it."""

    name = "span"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse what is none."""
        from duenotice.errors import Malformed
        from duenotice.wire.duration import parse_duration

        try:
            parse_duration(value)
        except Malformed as error:
            self.fail(f"{error.message} {error.hint}", param, ctx)
        return value


SPAN = _Span()


class _Name(click.ParamType[str]):
    """A name or an id; an empty one is mostly a variable of a script that was never set."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse what names nothing: it would mean all, or something else."""
        if not value.strip():
            self.fail("it is empty.", param, ctx)
        return value


NAME = _Name()


class _Moment(click.ParamType[str]):
    """A time of day as RFC 3339 writes it; which it is, the service reads."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse what is none here, where the flag can be named."""
        try:
            datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a time; write it like 2026-01-01T12:00:00Z.", param, ctx)
        return value


MOMENT = _Moment()
