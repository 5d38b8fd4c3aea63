"""Signals reach the programs that tests start, also where those who started the tests ignore them."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heard(*numbers: signal.Signals) -> Iterator[None]:
    """A program that is started in here is ended by these signals.

    It inherits what is ignored: after `make test &` in a script that is SIGINT, after `nohup make test` SIGHUP.
    What has a handler is not inherited.
    """
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
