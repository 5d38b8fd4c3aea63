"""The tests can be started by a script in the background, which ignores signals for them."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.signals import heard

TELLS = "import signal; print(signal.getsignal(signal.SIGINT) is not signal.SIG_IGN)"


@pytest.fixture
def _ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ignored")
def test_a_program_hears_what_we_ignore() -> None:
    """And we ignore it again afterwards."""
    with heard(signal.SIGINT, signal.SIGTERM):
        inside = subprocess.check_output([sys.executable, "-ISc", TELLS], text=True)
    outside = subprocess.check_output([sys.executable, "-ISc", TELLS], text=True)
    assert (inside, outside) == ("True\n", "False\n")
