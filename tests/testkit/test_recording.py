"""Recordings: what an endpoint answered is written down, served again at any speed, and held against another's."""

import asyncio
import io
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from duenotice.errors import Malformed, Misconfigured
from duenotice.testkit.emulator import Emulator
from duenotice.testkit.fixture import ScheduledEvents
from duenotice.testkit.recording import (
    Frame,
    RecordedAnswer,
    Replay,
    ask,
    differences,
    frame_at,
    frame_to_json,
    read_recording,
    record,
)
from tests.support.cli import duenotice

NEWEST = "2020-07-01"


@pytest.fixture
def kit() -> Iterator[ScheduledEvents]:
    """A service of one VM."""
    with Emulator(default_vm="me") as emulator:
        yield ScheduledEvents(emulator)


@contextmanager
def serving(file: Path, *more: str) -> Iterator[str]:
    """`duenotice replay` on a free port; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "duenotice", "replay", str(file), "--metadata-listen", address, *more]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert address in process.stderr.readline()
        yield f"http://{address}"
        process.terminate()


def test_each_answer_that_differs_is_written_down_once(kit: ScheduledEvents) -> None:
    """A life of an event is four documents, however often one asks, and an error is an answer too."""
    acts: list[Callable[[], object]] = [
        lambda: kit.vm().restart(),
        lambda: kit.event.start(),
        lambda: kit.event.finish(),
        lambda: kit.fault("500"),
        lambda: kit.no_fault(),
    ]
    coming = iter(acts)
    polls = 0

    def pass_time(_: float) -> None:
        nonlocal polls
        polls += 1
        if polls % 3 == 0:
            next(coming, lambda: None)()

    frames = list(islice(record(kit.url, NEWEST, 0, 10, pass_time), 6))
    documents = [json.loads(frame.answered.body) for frame in frames]
    statuses = [[event["EventStatus"] for event in document.get("Events", [])] for document in documents]
    assert statuses == [[], ["Scheduled"], ["Started"], [], [], []]
    assert [frame.answered.status for frame in frames] == [200, 200, 200, 200, 500, 200]
    assert frames[1].answered.headers["etag"] == f'"{documents[1]["DocumentIncarnation"]}"'


def test_a_recording_is_read_as_it_was_written() -> None:
    """Line by line; a line that is none is named with its place."""
    frames = [Frame(0.0, RecordedAnswer(200, {"etag": '"1"'}, "{}")), Frame(1.5, RecordedAnswer(500, {}, "é"))]
    text = "\n".join(map(frame_to_json, frames)) + "\n"
    assert read_recording(io.StringIO(text), "file") == frames
    with pytest.raises(Malformed, match="file:3"):
        read_recording(io.StringIO(text + '{"after": 1}\n'), "file")
    with pytest.raises(Malformed, match="no answers"):
        read_recording(io.StringIO("\n"), "file")


@pytest.mark.parametrize(("seconds", "status"), [(0.0, 200), (1.4, 200), (1.5, 500), (99.0, 500)])
def test_what_was_answered_stays_until_the_next(seconds: float, status: int) -> None:
    """And the last for ever."""
    frames = [Frame(0.0, RecordedAnswer(200, {}, "")), Frame(1.5, RecordedAnswer(500, {}, ""))]
    assert frame_at(frames, seconds).answered.status == status


def test_a_replay_goes_as_fast_as_told() -> None:
    """An hour passes in a moment, and approvals are taken."""
    frames = [Frame(0.0, RecordedAnswer(200, {"etag": '"1"'}, "{}")), Frame(3600.0, RecordedAnswer(410, {}, ""))]

    async def asked() -> list[int]:
        replay = Replay(frames, 36_000.0)
        host, port = await replay.start("127.0.0.1", 0)
        statuses = [(await asyncio.to_thread(ask, f"http://{host}:{port}", NEWEST)).status]
        while statuses[-1] == 200:
            statuses.append((await asyncio.to_thread(ask, f"http://{host}:{port}", NEWEST)).status)
        replay.stop()
        return statuses

    statuses = asyncio.run(asked())
    assert (statuses[0], statuses[-1]) == (200, 410)


def test_a_recording_of_a_service_answers_like_the_service(kit: ScheduledEvents, tmp_path: Path) -> None:
    """Recorded, replayed and compared by the command line: no difference."""
    kit.vm().freeze()
    file = tmp_path / "file.jsonl"
    done = duenotice(None, "record", "--endpoint", kit.url, "--output", str(file), "--for", "100ms", "--every", "50ms")
    assert done.code == 0, done
    with serving(file, "--speed", "10x") as url:
        same = duenotice(None, "diff", kit.url, url, "--api-version", NEWEST)
        assert (same.code, same.out) == (0, "")
        other = duenotice(None, "diff", kit.url, url, "--api-version", "2017-08-01", "-o", "json")
    assert other.code == 1
    assert "object with" in json.loads(other.out)[0]["first"]


def test_how_many_events_there_are_is_no_difference_but_their_fields_are() -> None:
    """Ids and times are of the moment; keys and types are the contract."""

    def answered(*events: object, status: int = 200) -> RecordedAnswer:
        return RecordedAnswer(status, {}, json.dumps({"DocumentIncarnation": len(events), "Events": events}))

    one = {"EventId": "A", "Resources": ["x"]}
    assert differences("v", answered(), answered(one, {**one, "EventId": "B"})) == []
    (extra, *_) = differences("v", answered(one), answered({**one, "Duration": 1}))
    assert extra.where == "body .Events[]"
    assert [found.where for found in differences("v", answered(), answered(status=404))] == ["status"]


def test_what_is_no_endpoint_is_refused() -> None:
    """With what one looks like."""
    with pytest.raises(Misconfigured, match="not an endpoint"):
        ask("http://127.0.0.1/metadata", NEWEST)
    assert ask("http://127.0.0.1:1", NEWEST).status == 0
