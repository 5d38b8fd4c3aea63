"""A service in a thread of this process ends whole, however it is ended."""

import asyncio
import os
import signal
import threading

import pytest
import uvloop

from duenotice.store.memory import MemoryJournal
from duenotice.testkit.emulator import Emulator

PATIENCE_SECONDS = 10.0
"""Only against hangs."""


class InterruptedJournal(MemoryJournal):
    """While it is being closed, somebody presses Ctrl-C."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def close(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        self.go_on.wait(PATIENCE_SECONDS)
        super().close()


def test_an_emulator_that_is_interrupted_while_it_stops_leaves_no_task_behind() -> None:
    loop, journal = uvloop.new_event_loop(), InterruptedJournal()
    emulator = Emulator(own_journal=journal, default_vm="me")
    emulator.new_loop = lambda: loop
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it
    with pytest.raises(KeyboardInterrupt), emulator:
        pass
    signal.signal(signal.SIGINT, before)
    left = asyncio.all_tasks(loop)
    journal.go_on.set()
    assert not left
