"""Stored rows as blocks of a golden file: what is stored, byte for byte, and below it how today's code reads it."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from duenotice.store.codec import Row
from tests.golden.examples import read


class Block(NamedTuple):
    """One stored thing: a title, what stands beside it, its bytes as text, and the value that was read from them."""

    title: str
    beside: str
    stored: str
    value: Any = None

    def __str__(self) -> str:
        beside = f" ({self.beside})" if self.beside else ""
        return "\n".join([f"== {self.title}{beside}", f"| {self.stored}", *read(self.value)])


def page(head: str, blocks: Iterable[Block]) -> str:
    """The whole file."""
    return "\n\n".join([head, *map(str, blocks)])


def blocks_of(text: str) -> Iterator[Block]:
    """The blocks of a file, without their values."""
    for part in text.split("\n\n"):
        title, *lines = part.split("\n")
        if title.startswith("== "):
            name, _, beside = title.removeprefix("== ").partition(" (")
            yield Block(name, beside.removesuffix(")"), lines[0].removeprefix("| "))


def block_of_row(title: str, row: Row, value: Any) -> Block:
    """A row of the journal."""
    return Block(title, f"position {row.position}, format {row.format}, crc {row.crc}", row.payload.decode(), value)


def row_of(block: Block) -> Row:
    """The row of the journal that was written down."""
    position, format, crc = (int(part.split()[1]) for part in block.beside.split(", "))
    return Row(position, format, crc, block.stored.encode())
