"""The start of duenotice-agent.pyz: finds what fits this Python inside the file, and runs the agent's command."""
# An old Python must be able to read this file, so that it can say what it is too old for: types stand in comments.
# ruff: noqa: PTH118, UP031, UP036

import os
import sys


def fail(what, hint):  # type: (str, str) -> None
    sys.stderr.write("error: " + what + "\n hint: " + hint + "\n")
    sys.exit(2)


def main():  # type: () -> None
    if sys.version_info < (3, 11):
        fail(
            "duenotice-agent needs Python 3.11 or newer, and this is %d.%d." % sys.version_info[:2],
            "Start it with another one: python3.11 duenotice-agent.pyz",
        )
    archive = sys.path[0]
    tag = "cp%d%d" % sys.version_info[:2]
    sys.path[:1] = [os.path.join(archive, tag), os.path.join(archive, "py")]
    from duenotice_native import provide  # type: ignore[import-not-found]  # native.py, in the pyz file

    provide(archive, tag, __loader__.get_data, fail)  # type: ignore[name-defined]  # every module has one
    from duenotice.cli.agent import main as command_line

    command_line()


main()
