"""Kinds of values on the command line: each is checked where the flag can be named, before anything is done."""

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
