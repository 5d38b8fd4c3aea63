"""Builds what test guests boot: Debian's cloud kernel, and an initramfs with BusyBox, some modules and one script."""

import gzip
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.programs import require_program, skip_unless_ci

KERNEL_PACKAGE = Path(__file__).parents[2] / ".run" / "host" / "kernel"
"""Where `tools/host-programs` unpacks the kernel's package."""
MODULES = (
    "virtio/virtio",
    "virtio/virtio_ring",
    "virtio/virtio_pci_legacy_dev",
    "virtio/virtio_pci_modern_dev",
    "virtio/virtio_pci",
    "core/failover",
    "net/net_failover",
    "net/virtio_net",
    "block/virtio_blk",
    "acpi/button",
    "input/evdev",
)
_CONSOLE = (5, 1)


class GuestImage(NamedTuple):
    """What a guest boots."""

    kernel: Path
    initramfs: Path


def guest_image(folder: Path) -> GuestImage:
    """The image, made in a folder; skips with a reason if its parts are not on this machine."""
    kernel = next(iter(KERNEL_PACKAGE.glob("boot/vmlinuz-*")), None)
    if kernel is None:
        skip_unless_ci("needs Debian's cloud kernel: run tools/host-programs")
    busybox = Path(require_program("busybox", "busybox-static"))
    initramfs = folder / "initramfs.gz"
    initramfs.write_bytes(gzip.compress(b"".join(_archive(busybox)), 1))
    return GuestImage(kernel, initramfs)


def _archive(busybox: Path) -> Iterator[bytes]:
    """An archive as the kernel wants it (cpio, newc)."""
    for folder in ("bin", "dev", "modules"):
        yield _entry(folder, stat.S_IFDIR | 0o755)
    yield _entry("dev/console", stat.S_IFCHR | 0o600, device=_CONSOLE)
    yield _entry("bin/busybox", stat.S_IFREG | 0o755, busybox.read_bytes())
    yield _entry("init", stat.S_IFREG | 0o755, (Path(__file__).parent / "guest_init.sh").read_bytes())
    for module in MODULES:
        file = next(KERNEL_PACKAGE.glob(f"lib/modules/*/kernel/**/{module}.ko"))
        yield _entry(f"modules/{file.name}", stat.S_IFREG | 0o644, file.read_bytes())
    yield _entry("TRAILER!!!", 0)


def _entry(name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    number = 0 if mode == 0 else abs(hash(name)) % 2**31 + 1
    size_of_name = len(name) + 1
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, size_of_name, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
