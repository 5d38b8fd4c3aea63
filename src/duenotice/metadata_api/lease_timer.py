"""An alarm that a process cannot sleep through: when its moment has come, nothing is answered before it was heard.

A port that may answer only until a moment would have to read the clock for each request, which is several percent of
what a poll costs. Instead the kernel has a timer, on the clock that also counts while the machine sleeps. It signals
the thread of the loop. If that thread was stopped meanwhile, the signal is there before its next instruction. Python
then calls the handler before it enters the next function: the earliest place where a request could be answered.
"""

import ctypes
import signal
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from weakref import WeakMethod

_SIGNAL = signal.SIGRTMIN + 5
_BOOT_CLOCK, _ABSOLUTE, _TO_THREAD = 7, 1, 4
"""CLOCK_BOOTTIME, TIMER_ABSTIME and SIGEV_THREAD_ID of Linux."""
_SECOND = 10**9

_handlers: "list[WeakMethod[Callable[[], None]]]" = []
"""All are called when any alarm of the process rings: a signal does not say whose it is."""


class LeaseTimer:
    """To be made and set on the main thread: there Python runs the handlers of signals."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        timer = ctypes.c_void_p()
        event = struct.pack("=qiii44x", 0, _SIGNAL, _TO_THREAD, threading.get_native_id())
        if self._libc.timer_create(_BOOT_CLOCK, event, ctypes.byref(timer)):
            raise OSError(ctypes.get_errno(), "timer_create")
        self._timer = timer
        signal.signal(_SIGNAL, _ring)

    def call(self, method: Callable[[], None]) -> None:
        """What is called when it rings; it may be in the middle of anything, and must not fail."""
        _handlers[:] = [handler for handler in _handlers if handler() is not None] + [WeakMethod(method)]

    def set(self, nanos: int) -> None:
        """Ring at this moment since boot, and at no other; at once if it has passed."""
        moment = divmod(max(1, nanos), _SECOND)
        if self._libc.timer_settime(self._timer, _ABSOLUTE, struct.pack("@4l", 0, 0, *moment), None):
            raise OSError(ctypes.get_errno(), "timer_settime")

    def __del__(self) -> None:
        if hasattr(self, "_timer"):  # a timer that was never made has the number of the first one
            self._libc.timer_delete(self._timer)


def _ring(_: int, __: FrameType | None) -> None:
    for handler in _handlers:
        if (method := handler()) is not None:
            method()


def lease_timer() -> LeaseTimer | None:
    """None where there is none: on another thread, as in a test, or on another system."""
    if threading.current_thread() is not threading.main_thread():
        return None
    with suppress(OSError, AttributeError):
        return LeaseTimer()
    return None
