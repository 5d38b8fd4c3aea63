"""Builds what test guests boot: Debian's cloud kernel, and an initramfs with BusyBox, some modules and one script."""

import gzip
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.programs import require_program, skip_unless_ci

KERNEL_PACKAGE = Path(__file__).parents[2] / ".run" / "host" / "kernel"
"""Where `tools/host-programs` unpacks the kernel's package."""
MODULES = ("virtio_pci", "virtio_net", "virtio_blk", "button", "evdev")
"""What a guest needs, without what these need themselves: that is not the same in all kernels."""
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
    modules = dict[str, bytes]()
    for module in MODULES:
        _add_with_what_it_needs(modules, module)
    for name, module_bytes in modules.items():
        yield _entry(f"modules/{name}.ko", stat.S_IFREG | 0o644, module_bytes)
    yield _entry("modules/order", stat.S_IFREG | 0o644, "\n".join(modules).encode())
    yield _entry("TRAILER!!!", 0)


def _add_with_what_it_needs(modules: dict[str, bytes], name: str) -> None:
    """Add a module behind all that it depends on, as it says itself; so they can be loaded one after the other."""
    if name in modules:
        return
    module = next(KERNEL_PACKAGE.glob(f"lib/modules/*/kernel/**/{name.replace('_', '[-_]')}.ko")).read_bytes()
    for needed in filter(None, re.findall(rb"\0depends=([^\0]*)\0", module)[0].decode().split(",")):
        _add_with_what_it_needs(modules, needed)
    modules[name] = module


def _entry(name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    number = 0 if mode == 0 else abs(hash(name)) % 2**31 + 1
    size_of_name = len(name) + 1
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, size_of_name, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
