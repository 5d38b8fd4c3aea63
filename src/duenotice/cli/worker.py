"""`duenotice serve` as a worker of a node: it ends when the node is gone, which is when its standard input ends.

The kernel kills it then, too: one that stands still would answer VMs when it wakes, and the next process of the node
waits for no worker of the last one (N18).

It loads all that it needs and begins at the first byte of its standard input: one that is kept as a spare serves soon.
"""

import ctypes
import os
import signal
import sys
import threading

from duenotice.cli.main import main
from duenotice.cli.serve import spare_memory

PR_SET_PDEATHSIG = 1


def be_killed_with_the_node() -> None:
    """Linux only; elsewhere the end of standard input has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_the_node() -> None:
    """Nothing is ever written; it only ends."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def load() -> None:
    """All that a follower imports, which takes most of its start."""
    spare_memory()
    import uvloop  # noqa: F401

    import duenotice.bootstrap.follower
    import duenotice.bootstrap.logs
    import duenotice.bootstrap.process
    import duenotice.bootstrap.start  # noqa: F401


def is_wanted() -> bool:
    """Wait until the node wants this process to begin; False if the node has ended."""
    return bool(os.read(sys.stdin.fileno(), 1))


if __name__ == "__main__":
    be_killed_with_the_node()
    load()
    if not is_wanted():
        sys.exit()
    threading.Thread(target=end_with_the_node, daemon=True).start()
    main(["serve", *sys.argv[1:]])
