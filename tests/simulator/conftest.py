"""What a world that is over leaves behind is thrown away at once, and not in the middle of another test."""

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """Coroutines of processes that were killed never end; nobody needs to hear of it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
