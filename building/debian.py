"""Makes the Debian packages duenotice and duenotice-agent from the tree; dpkg-deb packs them."""

import gzip
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import requires
from pathlib import Path

import click
from click.shell_completion import get_completion_class
from packaging.requirements import Requirement

from building import manual, pyz
from duenotice import __version__
from duenotice.cli.agent import agent
from duenotice.cli.main import duenotice
from duenotice.settings import ServeSettings, rows

ROOT = Path(__file__).parents[1]
PARTS = ROOT / "packaging"
CONTROL = tomllib.loads((PARTS / "debian/control.toml").read_text())
EXTRAS = ("server", "azure", "postgres")
LIBRARY = "usr/lib/duenotice"
SHELLS = {
    "bash": "usr/share/bash-completion/completions/{}",
    "zsh": "usr/share/zsh/vendor-completions/_{}",
    "fish": "usr/share/fish/vendor_completions.d/{}.fish",
}
WRAPPER = """#!/usr/bin/python3 -Es
import sys

sys.path.insert(0, "/usr/lib/duenotice")
from duenotice.cli import main

main()
"""
MAINTAINER = "The makers of duenotice <duenotice@localhost>"
CHANGELOG = "{} ({}-1) unstable; urgency=medium\n\n  * See CHANGELOG.md of the project.\n\n -- {}  {}\n"
COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: 2026 The makers of duenotice
License: Apache-2.0
 The text is in /usr/share/common-licenses/Apache-2.0.
 The libraries in /usr/lib/duenotice have licences of their own, in the folders *.dist-info beside them.
"""
SCRIPTS = {
    "duenotice": {
        "UNITS": "duenotice.socket duenotice.service",
        "OTHERS": "duenotice-node.service duenotice-follower.service",
        "SYSUSERS": "systemd-sysusers duenotice.conf",
        "DOCTOR": "duenotice doctor",
        "COMPILE": f"python3 -m compileall -q /{LIBRARY} || true",
        "CLEAN": f"find /{LIBRARY} -depth -name __pycache__ -type d -exec rm -rf {{}} +",
        "STATE": "/var/lib/duenotice-service /var/lib/duenotice-node /var/lib/private/duenotice-node",
    },
    "duenotice-agent": {
        "UNITS": "",  # a poll turns events on for the whole set (F01), so a person says when
        "OTHERS": "duenotice-agent.service duenotice-agent-unprivileged.service",
        "SYSUSERS": ":",
        "DOCTOR": "duenotice-agent check",
        "COMPILE": ":",
        "CLEAN": ":",
        "STATE": "/var/lib/duenotice /var/lib/private/duenotice",
    },
}


def moment() -> datetime:
    """The date of everything in a package: that of the commit."""
    return datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "1767225600")), UTC)


def put(root: Path, place: str, text: str, mode: int = 0o644) -> None:
    """Write a file of the package."""
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def settings_file() -> str:
    """/etc/duenotice/duenotice.toml: every setting with its help, and its default behind #."""
    lines = ["# The settings of the service. What stands behind # is the default. All of it: man duenotice-serve.", ""]
    defaults = ServeSettings()
    for row in rows():
        value = getattr(defaults, row.name)
        text = {bool: str(value).lower(), str: f'"{value}"'}.get(type(value), str(value))
        lines += [f"# {row.help}", f"# {row.name} = {text}", ""]
    lines += ["# systemd opens it: duenotice.socket.", 'metadata_listen = "169.254.169.254:80"', ""]
    return "\n".join(line for line in lines if line != '# metadata_listen = "127.0.0.1:16925"')


def closure(names: Iterator[str] | list[str]) -> set[str]:
    """All libraries that these need on this Python, by the names in the lock."""
    found: set[str] = set()
    waiting = [Requirement(name) for name in names]
    while waiting:
        wanted = waiting.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        for text in requires(wanted.name) or [] if name not in found or wanted.extras else []:
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                waiting.append(inner)
        found.add(name)
    return found - {"duenotice"}


def libraries(target: Path) -> None:
    """Our package and all that it needs, in a folder that nobody else imports from."""
    lock = (ROOT / "requirements-dev.lock").read_text()
    wanted = ROOT / ".run/debian/wanted.txt"
    names = closure([f"duenotice[{','.join(EXTRAS)}]"])
    entries = re.findall(r"^([A-Za-z0-9._-]+)(==.*?)(?=^[^\s#]|\Z)", lock, re.MULTILINE | re.DOTALL)
    wanted.write_text("".join(name + rest for name, rest in entries if name in names))
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "--target", target, "-r", wanted], check=True)
    (wheel,) = (ROOT / "dist").glob("duenotice-*.whl")
    subprocess.run([*pip, "--target", target, wheel], check=True)
    for unused in ("bin", "apsw/sqlite_extra_binaries"):
        shutil.rmtree(target / unused, ignore_errors=True)
    for path in target.rglob("*.so*"):
        subprocess.run(["strip", "--strip-unneeded", path], check=True)
        path.chmod(0o644)
    for path in target.rglob("*"):
        if path.name in ("direct_url.json", "RECORD", "INSTALLER", "REQUESTED") or path.suffix in (".c", ".pyx"):
            path.unlink()


def documents(root: Path, package: str, command: click.Command) -> None:
    """Manual pages, completions, changelog and licence."""
    for name, text in manual.pages(command, package, moment().date().isoformat()):
        if name == "duenotice-agent.1" and package != "duenotice-agent":
            continue  # the other package has it
        pack(root / f"usr/share/man/man1/{name}.gz", text)
    for shell, place in SHELLS.items():
        kind = get_completion_class(shell)
        assert kind is not None
        variable = f"_{package.replace('-', '_').upper()}_COMPLETE"
        put(root, place.format(package), kind(command, {}, package, variable).source())
    place = f"usr/share/doc/{package}"
    stamp = moment().strftime("%a, %d %b %Y %H:%M:%S +0000")
    pack(root / place / "changelog.Debian.gz", CHANGELOG.format(package, __version__, MAINTAINER, stamp))
    put(root, f"{place}/copyright", COPYRIGHT)
    # The project has no mail address.
    tags = ("bogus-mail-host", "bogus-mail-host-in-debian-changelog")
    put(root, f"usr/share/lintian/overrides/{package}", "".join(f"{package}: {tag}\n" for tag in tags))


def pack(path: Path, text: str) -> None:
    """Write a compressed file, the same bytes each time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def unit(root: Path, name: str, program: str = "") -> None:
    """A unit of systemd; with `program` another one is started."""
    text = (PARTS / "systemd" / name).read_text()
    put(root, f"lib/systemd/system/{name}", text.replace("/usr/bin/duenotice agent", program) if program else text)


def service(root: Path) -> None:
    """The package duenotice."""
    libraries(root / LIBRARY)
    put(root, "usr/bin/duenotice", WRAPPER, 0o755)
    for name in ("duenotice.service", "duenotice.socket", "duenotice-node.service", "duenotice-follower.service"):
        unit(root, name)
    put(root, "usr/lib/sysusers.d/duenotice.conf", 'u duenotice - "Scheduled Events" /var/lib/duenotice-service\n')
    put(root, "usr/lib/tmpfiles.d/duenotice.conf", "d /var/lib/duenotice-service 0700 duenotice duenotice -\n")
    put(root, "etc/duenotice/duenotice.toml", settings_file())
    documents(root, "duenotice", duenotice)


def agent_package(root: Path) -> None:
    """The package duenotice-agent: one file, its units, and a file of settings to begin with."""
    target = root / "usr/bin/duenotice-agent"
    target.parent.mkdir(parents=True)
    wheels = pyz.fetch(ROOT / ".run/wheels")
    pyz.write(target, pyz.contents(wheels), b"#!/usr/bin/python3\n")
    for name in ("duenotice-agent.service", "duenotice-agent-unprivileged.service"):
        unit(root, name, "/usr/bin/duenotice-agent")
    for drop_in in sorted((PARTS / "systemd/drop-ins").glob("*.conf")):
        put(root, f"usr/share/doc/duenotice-agent/examples/{drop_in.name}", drop_in.read_text())
    put(root, "etc/duenotice/agent.toml", (PARTS / "debian/agent.toml").read_text())
    documents(root, "duenotice-agent", agent)


MAKERS = {"duenotice": service, "duenotice-agent": agent_package}


def control(package: str, root: Path) -> str:
    """The control file."""
    facts = CONTROL[package]
    machine = subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
    ).stdout.strip()
    architecture = machine if facts["Architecture"] == "native" else facts["Architecture"]
    return (
        f"Package: {package}\nVersion: {__version__}-1\nArchitecture: {architecture}\n"
        f"Maintainer: {MAINTAINER}\nInstalled-Size: {size_of(root)}\n"
        f"Depends: {', '.join(facts['Depends'])}\nSection: {facts['Section']}\nPriority: optional\n"
        f"Description: {facts['Description'].strip()}\n"
    )


def room(package: str, root: Path) -> int:
    """How many kilobytes must be free: dpkg unpacks beside the old files, and Python compiles those of the service."""
    return size_of(root) * 3 // 2 if package == "duenotice" else size_of(root) + 1024


def size_of(root: Path) -> int:
    """All files, in kilobytes."""
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024


def scripts(package: str, root: Path) -> None:
    """What dpkg runs, and what it must not overwrite."""
    words = {**SCRIPTS[package], "PACKAGE": package, "KILOBYTES": str(room(package, root))}
    for name in ("preinst", "postinst", "prerm", "postrm"):
        text = (PARTS / "debian" / name).read_text()
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        put(root, f"DEBIAN/{name}", text, 0o755)
    conffiles = sorted(f"/{path.relative_to(root)}" for path in (root / "etc").rglob("*") if path.is_file())
    put(root, "DEBIAN/conffiles", "\n".join(conffiles) + "\n")


def build(package: str, folder: Path) -> Path:
    """One package, in dist/."""
    root = folder / package
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    MAKERS[package](root)
    text = control(package, root)
    scripts(package, root)
    put(root, "DEBIAN/control", text)
    for path in root.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, ROOT / "dist"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (made,) = (ROOT / "dist").glob(f"{package}_*.deb")
    return made


def main() -> None:
    """Make both."""
    os.umask(0o022)
    for package in MAKERS:
        made = build(package, ROOT / ".run/debian")
        print(f"{made.relative_to(ROOT)}: {made.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
