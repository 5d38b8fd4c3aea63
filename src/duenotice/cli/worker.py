"""`duenotice serve` as a worker of a node: it ends when the node is gone, which is when its standard input ends."""

import os
import signal
import sys
import threading

from duenotice.cli.main import main


def end_with_the_node() -> None:
    """Nothing is ever written; it only ends."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=end_with_the_node, daemon=True).start()
    main(["serve", *sys.argv[1:]])
