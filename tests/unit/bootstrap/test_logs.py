"""What is logged and how."""

import subprocess
import sys

import pytest

SAYS = """
import structlog
from duenotice.bootstrap.logs import configure
configure({form!r})
structlog.get_logger().critical("it burns", action="fire")
"""


@pytest.mark.parametrize(("form", "said"), [("json", True), ("console", True), ("auto", True), ("none", False)])
def test_each_format_says_what_it_should(form: str, said: bool) -> None:
    """And `none` says nothing, not even the worst."""
    done = subprocess.run([sys.executable, "-c", SAYS.format(form=form)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, "it burns" in done.stderr) == (0, said), done.stderr
