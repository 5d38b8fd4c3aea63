"""S26: a loop that stands still ends the process, not the promise; one that was only stopped goes on."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from duenotice.bootstrap.process import EXIT_CODE
from tests.acceptance.conftest import DEMO
from tests.support.served import Served, wait_until

LIMIT = 1.0
SECONDS = 60

SERVE = """
    import asyncio, os, sys, time
    from contextlib import asynccontextmanager
    from duenotice.bootstrap.logs import configure
    from duenotice.cli.serve import run
    from duenotice.settings import resolve

    def guilty_function():
        {crime}

    @asynccontextmanager
    async def beside(service):
        asyncio.get_running_loop().call_later(0.1, guilty_function)
        yield

    flags = {{"fleet": {fleet!r}, "data_dir": ":memory:", "metadata_listen": "127.0.0.1:0",
             "operator_listen": "127.0.0.1:0", "watchdog": {limit!r}}}
    configure("json")
    run(resolve(flags, {{}}), lambda service: None, beside)
"""
STUCK = {
    "a busy loop": "while True: pass",
    "a long sleep": "time.sleep(600)",
    "a wait for a thread": "__import__('threading').Event().wait()",
}
BARKED = '"action": "watchdog"'
NOBODY_READS = "os.set_blocking(2, True); [print('x' * 65536, file=sys.stderr) for _ in range(100)]"


def command(crime: str, limit: float = LIMIT) -> list[str]:
    """A service, wired as `duenotice serve` wires it, in whose loop something goes wrong."""
    code = textwrap.dedent(SERVE).format(crime=crime, fleet=str(DEMO), limit=limit)
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("crime", STUCK)
def test_a_loop_that_stands_still_ends_the_process_and_says_where(crime: str):
    """With a code that lets supervisors start it again, one clear line, and the stack of every thread."""
    done = subprocess.run(command(STUCK[crime]), capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == EXIT_CODE, done.stderr
    (line,) = [json.loads(line) for line in done.stderr.splitlines() if BARKED in line]
    assert (line["level"], line["seconds"], line["exit_code"]) == ("critical", LIMIT, EXIT_CODE)
    assert "in guilty_function" in done.stderr
    assert len(re.findall(r"^(Current thread|Thread) 0x", done.stderr, re.MULTILINE)) >= 3


def test_nobody_who_reads_nothing_can_keep_it(tmp_path: Path):
    """Standard error is a pipe that is full: it ends all the same."""
    with subprocess.Popen(command(NOBODY_READS), stderr=subprocess.PIPE) as process:
        try:
            assert process.wait(SECONDS) == EXIT_CODE
        finally:
            process.kill()


@pytest.mark.parametrize(("limit", "crime"), [(0.0, "time.sleep(2)"), (10.0, "time.sleep(2)")])
def test_a_loop_that_comes_back_in_time_goes_on(limit: float, crime: str):
    """And 0 is no limit at all."""
    end = "; os.kill(os.getpid(), __import__('signal').SIGTERM)"
    done = subprocess.run(command(crime + end, limit), capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, BARKED in done.stderr) == (0, False), done.stderr
    assert '"action": "stopped"' in done.stderr


def test_a_process_that_is_stopped_and_continued_goes_on(tmp_path: Path):
    """SIGSTOP for three times as long as the loop may stand still: the time in which nothing runs is not counted."""
    with Served(tmp_path / "data", DEMO, watchdog=LIMIT) as node:
        before = node.document("me")
        pid = node.server._process.pid
        os.kill(pid, signal.SIGSTOP)
        continued = time.monotonic() + 3 * LIMIT
        wait_until(lambda: time.monotonic() >= continued)
        os.kill(pid, signal.SIGCONT)
        assert node.document("me") == before
        looked = time.monotonic() + 2 * LIMIT
        wait_until(lambda: time.monotonic() >= looked)
        assert node.server.alive()
        assert node.document("me") == before


def test_a_node_within_another_program_is_not_watched():
    """Somebody's tests, say: their process is not ours to end."""
    code = f"""
        import asyncio, threading, time
        from duenotice.bootstrap.node import Service
        from duenotice.settings import ServeSettings
        async def main():
            settings = ServeSettings(data_dir=":memory:", metadata_listen="127.0.0.1:0", operator_listen="127.0.0.1:0",
                                     watchdog={LIMIT / 4}, fleet={str(DEMO)!r}, log_format="none")
            service = Service(settings)
            await service.start()
            time.sleep({LIMIT})
            assert "watchdog" not in [thread.name for thread in threading.enumerate()]
            await service.stop()
        asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=SECONDS, check=False)
    assert done.returncode == 0
