"""Hypervisors and one image for the tests of a file: libvirtd takes seconds to start, and a guest some more."""

from collections.abc import Iterator

import pytest

from tests.host.guest_image import GuestImage, guest_image
from tests.host.hypervisor import BRIDGE, Hypervisor, hypervisor


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> GuestImage:
    """What guests boot."""
    return guest_image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def h1(tmp_path_factory: pytest.TempPathFactory, image: GuestImage) -> Iterator[Hypervisor]:
    """A hypervisor without guests."""
    with hypervisor("h1", tmp_path_factory.mktemp("h1"), image) as made:
        yield made


@pytest.fixture(scope="module")
def h2(h1: Hypervisor, tmp_path_factory: pytest.TempPathFactory, image: GuestImage) -> Iterator[Hypervisor]:
    """Its bridge and that of h1 are one network."""
    with hypervisor("h2", tmp_path_factory.mktemp("h2"), image, "10.77.0.2") as made:
        h1.connect("to-h2", made, "to-h1")
        h1.ip(f"link set to-h2 master {BRIDGE}")
        made.ip(f"link set to-h1 master {BRIDGE}")
        yield made
