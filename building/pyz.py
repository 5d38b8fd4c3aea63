"""Makes duenotice-agent.pyz: the agent, and all that it needs, in one file for any Python from 3.11 on."""

import ast
import marshal
import os
import re
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PROCESSORS = ("x86_64", "aarch64")
BEGIN = ("cli/agent.py", "cli/main.py", "agent/**/*.py", "client/*.py")
"""The agent's command; agent and client name some of their modules in tables, so all of them are taken."""
LIBRARIES = ("click", "msgspec")
SHEBANG = b"#!/usr/bin/env python3\n"
Contents = dict[str, bytes]


def sources(wheels: list[Path]) -> Contents:
    """All Python files, by the name they are imported as."""
    own = {path.relative_to(ROOT / "src").as_posix(): path.read_bytes() for path in reached()}
    own["duenotice_native.py"] = (HERE / "native.py").read_bytes()
    return own | {
        name: body
        for wheel in wheels
        for name, body in read(wheel).items()
        if name.endswith(".py") and name.split("/")[0] in LIBRARIES
    }


def reached() -> set[Path]:
    """Our own files that the agent imports, now or later, and those that these import."""
    found: set[Path] = set()
    waiting = [_name(path) for pattern in BEGIN for path in (ROOT / "src/duenotice").glob(pattern)]
    while waiting:
        path = _file(waiting.pop())
        if path is not None and path not in found:
            found.add(path)
            waiting += imported(ast.parse(path.read_bytes()))
            waiting.append(_name(path.parent))  # its package
    return found


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)


def _file(name: str) -> Path | None:
    place = ROOT / "src" / name.replace(".", "/")
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def imported(tree: ast.Module) -> Iterator[str]:
    """What a module names in its imports; a name behind `from` may be a module too."""
    for node in _run(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from _run(child)


def read(wheel: Path) -> Contents:
    """What a wheel holds."""
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist() if not name.endswith("/")}


def compiled(files: Contents) -> Contents:
    """The same for the Python that runs this, which then has nothing to compile at its start."""
    tag = "cp{}{}".format(*sys.version_info)
    return {f"{tag}/{name}c": _bytecode(name, body) for name, body in files.items()}


def _bytecode(name: str, body: bytes) -> bytes:
    by_hash_unchecked = (1).to_bytes(4, "little")
    code = marshal.dumps(compile(body, name, "exec", dont_inherit=True))
    return MAGIC_NUMBER + by_hash_unchecked + source_hash(body) + code


def natives(wheels: list[Path]) -> Contents:
    """The compiled part of msgspec, for each Python and processor."""
    found = {}
    for wheel in wheels:
        if match := re.match(r"msgspec-[^-]+-(cp\d+)-.*_(x86_64|aarch64)\.whl", wheel.name):
            (code,) = (body for name, body in read(wheel).items() if "_core." in name and name.endswith(".so"))
            found[f"native/{match[1]}-{match[2]}.so"] = code
    return found


def contents(wheels: list[Path]) -> Contents:
    """All that is in the file."""
    files = sources(wheels)
    main = {"__main__.py": (HERE / "agent_main.py").read_bytes()}
    return main | {f"py/{name}": body for name, body in files.items()} | compiled(files) | natives(wheels)


def write(target: Path, files: Contents, shebang: bytes = SHEBANG) -> None:
    """The same bytes each time: in order, with one date for all."""
    with target.open("wb") as out:
        out.write(shebang)
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as pyz:
            for name in sorted(files):
                entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = (stat.S_IFREG | 0o644) << 16
                pyz.writestr(entry, files[name])
    target.chmod(0o755)


def locked(library: str) -> str:
    """Its lines in the lock, with the hashes."""
    lock = (ROOT / "requirements.lock").read_text()
    entry = re.search(rf"^{library}==.*?(?=^[^\s#]|\Z)", lock, re.MULTILINE | re.DOTALL)
    assert entry is not None, f"{library} is not in requirements.lock"
    return entry[0]


def fetch(folder: Path) -> list[Path]:
    """The wheels, as locked."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = folder / "requirements.txt"
    for library in LIBRARIES:
        wanted.write_text(locked(library))
        for python in PYTHONS if library == "msgspec" else PYTHONS[:1]:
            for processor in PROCESSORS if library == "msgspec" else PROCESSORS[:1]:
                _download(folder, wanted, python, processor)
    return sorted(folder.glob("*.whl"))


def _download(folder: Path, wanted: Path, python: str, processor: str) -> None:
    kinds = [f"--platform=manylinux{kind}_{processor}" for kind in ("2014", "_2_17", "_2_28")]
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", f"--python-version={python}", *kinds]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-qq",
            "--disable-pip-version-check",
            *options,
            "-d",
            folder,
            "-r",
            wanted,
        ],
        check=True,
        env=os.environ | {"PIP_REQUIRE_VIRTUALENV": "0"},
    )


def main() -> None:
    """Write dist/duenotice-agent.pyz."""
    target = ROOT / "dist/duenotice-agent.pyz"
    target.parent.mkdir(exist_ok=True)
    write(target, contents(fetch(ROOT / ".run/wheels")))
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
