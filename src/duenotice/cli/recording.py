"""`duenotice record`, `replay` and `diff`: store what an endpoint answers, serve it again, compare two endpoints."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from duenotice.cli.errors import Failed
from duenotice.cli.options import SPAN
from duenotice.cli.output import print_note, print_text
from duenotice.errors import Misconfigured, reason
from duenotice.escape import one_line

if TYPE_CHECKING:
    from duenotice.testkit.recording import Frame, Replay

_NEWEST = "2020-07-01"


@click.command(epilog="Example: duenotice record --output monday.jsonl --for 1h")
@click.option(
    "--endpoint", metavar="URL", default="http://169.254.169.254", show_default=True, help="The endpoint to ask."
)
@click.option("--output", metavar="FILE", default="-", help="The file to write; - is standard output.  [default: -]")
@click.option("--api-version", metavar="VERSION", default=_NEWEST, show_default=True, help="The version to ask for.")
@click.option("--every", type=SPAN, default="1s", show_default=True, help="How often to ask.")
@click.option("--for", "span", type=SPAN, default="36500d", help="How long to record.  [default: until told to stop]")
def record(endpoint: str, output: str, api_version: str, every: str, span: str) -> None:
    """Record each document of an endpoint that differs from the one before, as JSON lines."""
    from duenotice.testkit.recording import frame_to_json
    from duenotice.testkit.recording import record as frames
    from duenotice.wire.spans import parse_duration

    try:
        opened = click.open_file(output, "a")
    except OSError as error:
        raise Misconfigured(f"Cannot write {output}: {error.strerror}.", hint="Name another file.") from None
    with opened as file, suppress(KeyboardInterrupt):
        for frame in frames(endpoint, api_version, parse_duration(every), parse_duration(span)):
            file.write(frame_to_json(frame) + "\n")
            file.flush()
            print_note(f"{frame.after:8.1f} s  {frame.answered.status}  {len(frame.answered.body)} bytes")


@click.command(epilog="Example: duenotice replay monday.jsonl --speed 10x")
@click.argument("file", metavar="FILE")
@click.option("--speed", metavar="10x", default="1x", show_default=True, help="How much faster than the original.")
@click.option(
    "--metadata-listen",
    "listen",
    metavar="HOST:PORT",
    default="127.0.0.1:16925",
    show_default=True,
    help="The address to serve on.",
)
def replay(file: str, speed: str, listen: str) -> None:
    """Serve a recording. It begins with the first request, and its last document stays."""
    import asyncio

    from duenotice.clock import parse_speed
    from duenotice.testkit.recording import Replay

    times = parse_speed(speed)
    if times is None:
        raise Misconfigured(f"{speed!r} is not a speed.", hint="Use a number such as 10x.")
    frames = _frames(file)
    what = f"{len(frames)} answers over {frames[-1].after:g} s at {speed}"
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(Replay(frames, times), what, listen))


def _frames(file: str) -> "list[Frame]":
    from duenotice.testkit.recording import read_recording

    try:
        with Path(file).open() as lines:
            return read_recording(lines, file)
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"Cannot read {file}: {reason(error)}.", hint="Name a recording.") from None


async def _serve(recording: "Replay", what: str, listen: str) -> None:
    import asyncio

    from duenotice.settings import host_port, listen_hint, parse_listen

    address = parse_listen("metadata_listen", listen)
    try:
        bound = await recording.start(*address)
    except OSError as error:
        problem = f"Cannot listen on {listen}: {os.strerror(error.errno or 0)}."
        raise Misconfigured(problem, hint=listen_hint(address, error)) from None
    print_note(f"{what}: http://{host_port(bound)}")
    await asyncio.Event().wait()


@click.command(epilog="Example: duenotice diff http://127.0.0.1:16925 http://127.0.0.1:26925")
@click.argument("first", metavar="URL1")
@click.argument("second", metavar="URL2")
@click.option(
    "--api-version", "versions", multiple=True, metavar="VERSION", help="The versions to ask for.  [default: all]"
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print.")
def diff(first: str, second: str, versions: Sequence[str], output: str) -> None:
    """Compare the answers of two endpoints: status, headers that matter, and the shape of the body.

    Ids, times and the number of events may differ. The exit code is 1 when anything else differs.
    """
    import json

    from duenotice.testkit.recording import ask, differences
    from duenotice.wire.api_versions import BY_NAME

    found = [
        difference
        for version in versions or [*BY_NAME, "none"]
        for difference in differences(version, ask(first, version), ask(second, version))
    ]
    if output == "json":
        print_text(json.dumps([difference._asdict() for difference in found], indent=2))
    else:
        for one in found:
            print_text(one_line(f"{one.api_version}  {one.where}: {one.first} | {one.second}"))
    if found:
        raise Failed(f"{len(found)} differences.", hint="Left is the first endpoint, right the second.")
