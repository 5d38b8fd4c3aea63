"""One hypervisor and one image for the tests of a file: libvirtd takes seconds to start, and a guest some more."""

from collections.abc import Iterator

import pytest

from tests.host.guest_image import GuestImage, guest_image
from tests.host.hypervisor import Hypervisor, hypervisor


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> GuestImage:
    """What guests boot."""
    return guest_image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def h1(tmp_path_factory: pytest.TempPathFactory, image: GuestImage) -> Iterator[Hypervisor]:
    """A hypervisor without guests."""
    with hypervisor("h1", tmp_path_factory.mktemp("h1"), image) as made:
        yield made
