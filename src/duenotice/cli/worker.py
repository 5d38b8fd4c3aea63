"""`duenotice serve` as a worker of a node: it ends when the node is gone, which is when its standard input ends.

The kernel kills it then, too: one that stands still would answer VMs when it wakes, and the next process of the node
waits for no worker of the last one (N18).
"""

import ctypes
import os
import signal
import sys
import threading

from duenotice.cli.main import main

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


if __name__ == "__main__":
    be_killed_with_the_node()
    threading.Thread(target=end_with_the_node, daemon=True).start()
    main(["serve", *sys.argv[1:]])
