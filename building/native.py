"""Inside duenotice-agent.pyz: imports the compiled part of msgspec, which cannot be imported out of a zip file."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from types import ModuleType
from typing import NoReturn

NAME = "msgspec._core"


def provide(archive: str, tag: str, read: Callable[[str], bytes], fail: Callable[[str, str], NoReturn]) -> None:
    """Let `msgspec` find its compiled part for this Python and processor."""
    machine = os.uname().machine if sys.platform == "linux" else sys.platform
    place = f"{archive}/native/{tag}-{machine}.so"

    def code() -> bytes:
        try:
            return read(place)
        except OSError:
            fail(f"This file has nothing for {tag} on {machine}.", "Install the package instead: pip install duenotice")

    sys.meta_path.insert(0, _Finder(code))


class _Finder:
    """Knows one module. It is loaded from a file that is there only for that moment."""

    def __init__(self, code: Callable[[], bytes]) -> None:
        self._code = code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # It is a loader by what it does; the base class would be imported for 25 ms.
        return ModuleSpec(NAME, self) if fullname == NAME else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        with _as_file(self._code()) as path:
            loader = ExtensionFileLoader(NAME, path)
            module = loader.create_module(ModuleSpec(NAME, loader, origin=path))
            loader.exec_module(module)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It is done: the file is gone."""


@contextmanager
def _as_file(code: bytes) -> Iterator[str]:
    """In memory, so that a disk that is full or read-only does not matter; or in a folder that only we can write."""
    number = os.memfd_create("msgspec")
    with open(number, "wb") as file:
        file.write(code)
        file.flush()
        path = f"/proc/self/fd/{number}"
        if os.access(path, os.R_OK):
            yield path
            return
    from pathlib import Path
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="duenotice-") as folder:
        place = Path(folder, "msgspec.so")
        place.write_bytes(code)
        yield str(place)
