"""Runs tests in forked processes (`-p tests.support.lanes`): tests are imported and found once, not in each process.

The tests of a file share a process, and a lane of processes is for tests that may meet. Those that measure come last.
"""

import gc
import multiprocessing
import random
import threading
from collections import deque
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

FORKING = multiprocessing.get_context("fork")


class Lane(NamedTuple):
    """How many files run at a time of the tests with one of these markers."""

    name: str
    files_at_a_time: int
    markers: frozenset[str]
    comes_last: bool = False


# A test is in the first that has one of its markers. They wait more than they compute, so more of them run than a small
# machine has cores.
LANES = (
    Lane("serial", 2, frozenset({"serial"}), comes_last=True),
    Lane("host", 1, frozenset({"host"})),
    Lane("machine", 3, frozenset({"machine", "browser"})),
)
PLAIN = Lane("plain", 4, frozenset())


class Worker:
    """A process that runs the files it is given, as its parent sees it."""

    def __init__(self, session: pytest.Session, lane: Lane, number: int) -> None:
        self.lane = lane
        self.left: deque[int] = deque()
        """The tests it was given and has not ended."""
        self.last = 0
        """The last test that it was given."""
        self.line, theirs = FORKING.Pipe()
        self.process = FORKING.Process(target=_work, args=(session, theirs, f"{lane.name}-{number}"))
        self.process.start()
        theirs.close()

    def give(self, tests: list[int]) -> None:
        """The tests of a file, or nothing more."""
        self.last = tests[-1] if tests else self.last
        self.left = deque(tests)
        self.line.send(tests)


class Lanes:
    """The parent: gives files to processes, and hands on what they report."""

    def __init__(self, session: pytest.Session) -> None:
        self._session, self._hook = session, session.config.hook
        self._waiting = _by_lane(session.items)
        self._workers: dict[Connection, Worker] = {}
        self._made = 0

    def run(self) -> None:
        """All tests; what measures, when all others are over."""
        try:
            for last in (False, True):
                for lane in (lane for lane in (*LANES, PLAIN) if lane.comes_last is last):
                    for _ in range(min(lane.files_at_a_time, len(self._waiting[lane.name]))):
                        self._hire(lane)
                while self._workers:
                    self._listen()
        finally:
            for worker in self._workers.values():
                worker.process.terminate()

    def _hire(self, lane: Lane) -> None:
        self._made += 1
        worker = Worker(self._session, lane, self._made)
        self._workers[worker.line] = worker

    def _listen(self) -> None:
        for ready in wait(list(self._workers)):
            worker = self._workers[cast(Connection, ready)]
            try:
                kind, value = worker.line.recv()
            except EOFError:
                self._ended(worker)
            else:
                self._heard(worker, kind, value)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)

    def _heard(self, worker: Worker, kind: str, value: Any) -> None:
        match kind:
            case "next":
                self._next(worker)
            case "report":
                self._report(value)
            case "end":
                self._end(worker)

    def _next(self, worker: Worker) -> None:
        waiting = self._waiting[worker.lane.name]
        worker.give(waiting.popleft() if waiting else [])

    def _report(self, data: dict[str, Any]) -> None:
        report = self._hook.pytest_report_from_serializable(config=self._session.config, data=data)
        self._hook.pytest_runtest_logreport(report=report)

    def _end(self, worker: Worker) -> None:
        item = self._session.items[worker.left.popleft()]
        self._hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _ended(self, worker: Worker) -> None:
        """All went well, or the process died in a test; others do what it was given after that."""
        worker.process.join()
        del self._workers[worker.line]
        if worker.process.exitcode or worker.left:
            self._tell_of_death(worker)
            if worker.left:
                self._waiting[worker.lane.name].appendleft(list(worker.left))
            if self._waiting[worker.lane.name]:
                self._hire(worker.lane)

    def _tell_of_death(self, worker: Worker) -> None:
        item = self._session.items[worker.left.popleft() if worker.left else worker.last]
        why = f"the process of this test, or of the one after it, ended with {worker.process.exitcode}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
        self._hook.pytest_runtest_logreport(report=report)


class Sender:
    """What a worker tells its parent of its tests; not that they got ready and cleaned up well, as most do."""

    def __init__(self, config: pytest.Config, line: Connection) -> None:
        self._config, self._line = config, line

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
            self._line.send(("report", data))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Fork, if there is something to run."""
    if session.testsfailed or session.config.option.collectonly:
        return None  # as without lanes
    assert threading.active_count() == 1, f"a test file starts threads when imported: {threading.enumerate()}"
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    gc.collect()
    gc.freeze()
    Lanes(session).run()
    return True


def _by_lane(items: list[pytest.Item]) -> dict[str, deque[list[int]]]:
    """The tests of each file, file by file, in their order."""
    files: dict[str, dict[Path, list[int]]] = {lane.name: {} for lane in (*LANES, PLAIN)}
    for number, item in enumerate(items):
        markers = {mark.name for mark in item.iter_markers()}
        lane = next((lane for lane in LANES if lane.markers & markers), PLAIN)
        files[lane.name].setdefault(item.path, []).append(number)
    return {name: deque(groups.values()) for name, groups in files.items()}


def _work(session: pytest.Session, line: Connection, name: str) -> None:
    """What a process does."""
    _become_one_of_many(session, line, name)
    while True:
        line.send(("next", None))
        if not (tests := line.recv()):
            break
        for number, following in zip(tests, [*tests[1:], None], strict=True):
            # After the last of a file all is cleaned up that is not for the whole session.
            after = session if following is None else session.items[following]
            session.config.hook.pytest_runtest_protocol(item=session.items[number], nextitem=after)
            line.send(("end", None))
    session._setupstate.teardown_exact(None)


def _become_one_of_many(session: pytest.Session, line: Connection, name: str) -> None:
    """With output, folders and chance of its own."""
    random.seed()
    plugins = session.config.pluginmanager
    plugins.unregister(name="terminalreporter")
    plugins.register(Sender(session.config, line))
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    folders = session.config._tmp_path_factory  # type: ignore[attr-defined]
    folders._basetemp = folders.getbasetemp() / name
    folders._basetemp.mkdir(mode=0o700)
