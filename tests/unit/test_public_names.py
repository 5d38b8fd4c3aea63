"""What `import duenotice` offers, and what it costs."""

import subprocess
import sys

import pytest

import duenotice
import duenotice.client
import duenotice.testing


def test_the_public_names_are_these() -> None:
    """A name that comes or goes is a promise that changes: say so in the changelog."""
    assert duenotice.__all__ == [
        "AsyncMetadataClient",
        "MetadataClient",
        "MetadataError",
        "SeenDocument",
        "SeenEvent",
        "__version__",
    ]
    assert duenotice.testing.__all__ == ["Approval", "Exchange", "RaisedEvent", "ScheduledEvents", "VmHandle"]


@pytest.mark.parametrize("package", [duenotice, duenotice.client, duenotice.testing])
def test_each_public_name_is_there(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        assert getattr(package, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        duenotice.Nothing  # noqa: B018


def test_each_error_of_the_client_is_drawn_in_its_tree() -> None:
    def below(kind: type[Exception]) -> list[str]:
        return [name for each in kind.__subclasses__() for name in (each.__name__, *below(each))]

    drawn = duenotice.client.errors.__doc__ or ""
    assert all(f"─ {name}" in drawn for name in below(duenotice.MetadataError))
    assert set(below(duenotice.MetadataError)) < set(duenotice.client.__all__)


LOADED = """
import sys
before = set(sys.modules)
import {module}
from pathlib import Path
ours = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(sorted(ours - set(sys.stdlib_module_names) - {{"duenotice"}}))
"""


@pytest.mark.parametrize(
    "module", ["duenotice", "duenotice.client", "duenotice.client.dhcp", "duenotice.wire.seen_documents"]
)
def test_the_client_loads_nothing_but_the_standard_library(module: str) -> None:
    """In a fresh interpreter: it runs as root on the VM."""
    code = LOADED.format(module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


WITHOUT = """
import sys
from duenotice.client import {name}
print(sorted({{"asyncio", "http", "msgspec", "socket", "ssl"}} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("name", "loaded"),
    [
        ("MetadataClient", ["socket"]),
        ("AsyncMetadataClient", ["socket"]),
        ("OperatorClient", ["msgspec", "socket"]),
    ],
)
def test_each_client_loads_only_what_it_needs(name: str, loaded: list[str]) -> None:
    """A VM loads nothing of the operator's half; the command line starts without asyncio, TLS and http.

    A client for asyncio loads asyncio when it first asks.
    """
    code = WITHOUT.format(name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"{loaded}\n"
