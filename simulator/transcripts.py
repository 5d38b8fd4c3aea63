"""Three transcripts of a world, each with a digest: what was answered, what was stored, and what agents did.

An entry has the world's time, a few words and some bytes. It has no name of our code in it: no class, no module, no
`repr`, no text of a log. So renaming, merging and moving our code leaves the digests as they are.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from msgspec import Struct

from duenotice.http.fetch import HttpAnswer
from simulator.renames import Renames


class Digests(Struct, frozen=True):
    """The digests of a world; two are equal when all entries of their transcripts are."""

    answered: str = ""
    stored: str = ""
    agents: str = ""


class Entry(Struct, frozen=True):
    """An entry as a person reads it."""

    transcript: str
    about: str
    data: str


class Recording(NamedTuple):
    """How a world is recorded: by which table of renames, and the list that keeps its entries, if they are needed."""

    renames: Renames = Renames()
    kept: list[Entry] | None = None


DIGESTS_ONLY = Recording()


class Transcript:
    """Entries in their order. Only their digest is kept, unless the recording wants more."""

    def __init__(self, name: str, now: Callable[[], float], kept: list[Entry] | None) -> None:
        self._name, self._now, self._kept = name, now, kept
        self._digest = hashlib.sha256()

    def add(self, *about: object, data: bytes = b"") -> None:
        """Add an entry."""
        text = " ".join((f"{self._now():.6f}", *map(str, about)))
        head = text.encode("utf-8", "backslashreplace")
        self._digest.update(b"%d %d %b%b" % (len(head), len(data), head, data))
        if self._kept is not None:
            self._kept.append(Entry(self._name, head.decode(), data.decode("utf-8", "backslashreplace")))

    def hexdigest(self) -> str:
        """The digest of all entries until now."""
        return self._digest.hexdigest()


class Transcripts:
    """The three transcripts of one world."""

    def __init__(self, now: Callable[[], float], recording: Recording) -> None:
        self._renames = recording.renames
        self.answered = Transcript("answered", now, recording.kept)
        self.stored = Transcript("stored", now, recording.kept)
        self.agents = Transcript("agents", now, recording.kept)

    @property
    def digests(self) -> Digests:
        """The digests of all entries until now."""
        return Digests(self.answered.hexdigest(), self.stored.hexdigest(), self.agents.hexdigest())

    def operator(self, about: Sequence[str], answer: HttpAnswer) -> None:
        """An answer of the operator's API: every byte, but for fields that the table says are renamed there."""
        headers = dict(answer.headers)
        if headers.get("content-length") == str(len(answer.body)):
            headers["content-length"] = "as it should be"
        written, body = self._renames.mapped("answer", answer.body)
        told = sorted(f"{name}: {value}" for name, value in headers.items())
        self.answered.add(*about, answer.status, f"{told}, {written}:", data=body)

    def rows(self, kind: str, rows: Sequence[Any], decided: float) -> None:
        """Rows of the journal, as they are packed; `kind` is `record` or `snapshot`."""
        for row in rows:
            written, data = self._renames.mapped(kind, row.payload)
            sound = crc32(row.payload, crc32(b"%d %d" % (row.position, row.format))) == row.crc
            checksum = "crc32 of position, format and payload" if sound else f"another checksum, {row.crc}"
            number = self._renames.format(kind, row.format)
            self.stored.add(
                kind, row.position, f"decided at {decided:.6f}, format {number}, {written}, {checksum}:", data=data
            )

    def ledger(self, vm: str, file: str, data: bytes) -> None:
        """What an agent writes into its ledger: lines with a checksum and JSON, or a part of one."""
        for line in data.splitlines(keepends=True):
            checksum, body = line[:9], line[9:-1]
            if checksum == b"%08x " % crc32(body) and line.endswith(b"\n"):
                written, body = self._renames.mapped("ledger", body)
                self.agents.add(vm, "writes to", file, f"{written}, crc32:", data=body)
            else:
                self.agents.add(vm, "writes to", file, "a part of a line, or another checksum:", data=line)
