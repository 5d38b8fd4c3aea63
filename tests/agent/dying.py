"""The agent's own process, which polls fast and dies by kill -9 at a chosen record of its ledger, on a chosen boot.

`DYING_AT=after:5` dies when the fifth record of this life is durable, `before:5` just before it is written.
"""

import os
import signal
from pathlib import Path

from duenotice import clock
from duenotice.agent.ledger import Ledger
from duenotice.agent.state import LedgerRecord
from duenotice.backoff import Backoff
from duenotice.cli import main
from duenotice.client import retry, watch


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def prepare(when: str, number: int) -> None:
    """Count the records as they are written, and die there."""
    write, written = Ledger.append, 0

    async def append(self: Ledger, *records: LedgerRecord) -> None:
        nonlocal written
        for record in records:
            mine = written = written + 1  # another record may be on its way meanwhile
            if (when, mine) == ("before", number):
                die()
            await write(self, record)
            if (when, mine) == ("after", number):
                die()

    Ledger.append = append  # type: ignore[method-assign]


def run() -> None:
    """The whole life of the process."""
    clock._BOOT_ID = Path(os.environ["BOOT_ID_FILE"])
    watch.POLL_SECONDS = 0.05
    retry.AGAIN = Backoff(0.02, 0.02)
    when, _, number = os.environ.get("DYING_AT", "never:0").partition(":")
    prepare(when, int(number))
    main()
