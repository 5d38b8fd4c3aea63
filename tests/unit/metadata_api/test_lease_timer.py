"""An alarm rings on time, and before anything else when its process was stopped meanwhile."""

import os
import signal
import subprocess
import threading

from duenotice.clock import boot_nanos
from duenotice.metadata_api.lease_timer import lease_timer

MILLISECOND = 10**6


class Sleeper:
    """Notes when it was woken."""

    woken = 0

    def wake(self) -> None:
        self.woken = self.woken or boot_nanos()


def look(sleeper: Sleeper) -> tuple[int, int]:
    """What a function sees that is called now: the time, and whether the alarm was heard."""
    return sleeper.woken, boot_nanos()


def test_no_function_begins_after_the_moment_without_the_alarm_having_been_heard() -> None:
    """Here the process is stopped past the moment, and nothing is read between its end and the first look."""
    sleeper, made = Sleeper(), lease_timer()
    assert made is not None
    made.call(sleeper.wake)
    story = f"kill -STOP {os.getpid()}; sleep 0.2; kill -CONT {os.getpid()}"
    until = boot_nanos() + 100 * MILLISECOND
    made.set(until)
    with subprocess.Popen(["sh", "-c", story]):
        last = look(sleeper)
        while not sleeper.woken:
            before, last = last, look(sleeper)
            assert before[1] < until + 5 * MILLISECOND
    assert sleeper.woken >= until


def test_it_can_be_put_off_and_there_is_none_on_another_thread() -> None:
    sleeper, made = Sleeper(), lease_timer()
    assert made is not None
    made.call(sleeper.wake)
    made.set(boot_nanos() + 3600 * 10**9)
    made.set(1)
    while not sleeper.woken:
        signal.sigtimedwait([], 0.01)
    others: list[object] = []
    thread = threading.Thread(target=lambda: others.append(lease_timer()))
    thread.start()
    thread.join()
    assert others == [None]
