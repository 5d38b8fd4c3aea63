"""Any number of streams of bytes through three readers; a seed makes a stream."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.requests import RequestCache, Router
from simulator.http.differences import known
from simulator.http.grammar import pieces, stream
from simulator.http.opinions import Meaning, Ours, of_h11, of_httptools, ours


@dataclass
class Compared:
    """How much was read, which known differences were met, and what was wrong."""

    streams: int = 0
    accepted: int = 0
    known: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seed: int = 0


def campaign(seed: int, streams: int) -> Compared:
    """The streams of this seed and those after it, until one of them is wrong."""
    compared, router = Compared(), Router(MetadataOptions())
    while compared.streams < streams and not compared.wrong:
        compared.seed, chance = seed + compared.streams, Random(seed + compared.streams)
        compare(stream(chance), chance, router, compared)
    return compared


def compare(data: bytes, chance: Random, router: Router, compared: Compared) -> None:
    """One stream, through all readers."""
    compared.streams += 1
    accepted = ours([data])
    compared.accepted += len(accepted)
    compared.wrong += _cut_otherwise(data, chance, accepted)
    compared.wrong += _memo(data, accepted, router)
    for one in accepted:
        raw = data[one.begin :]
        for reader, theirs in (("h11", of_h11(raw)), ("httptools", of_httptools(raw, one.meaning.length))):
            if theirs != one.meaning:
                _note(reader, one.meaning, raw, theirs, compared)


def _cut_otherwise(data: bytes, chance: Random, accepted: list[Ours]) -> Iterator[str]:
    """Packets must not matter."""
    packets = pieces(data, chance)
    if [one.meaning for one in ours(packets)] != [one.meaning for one in accepted]:
        yield f"Cut into {packets} it means something else than {data!r}"


def _memo(data: bytes, accepted: list[Ours], router: Router) -> Iterator[str]:
    """What is remembered of a request must be what the reader makes of it."""
    learnt = RequestCache(router).add(data)
    if learnt is not None and [learnt] != [router.parse(one.head) for one in accepted]:
        yield f"The memo takes {data!r} for {learnt}"


def _note(reader: str, meaning: Meaning, raw: bytes, theirs: Meaning | str, compared: Compared) -> None:
    row = known(reader, meaning, raw, theirs)
    if row is None:
        compared.wrong.append(f"{raw[: meaning.length]!r}\nis to us {meaning}\nand to {reader} {theirs}")
    else:
        compared.known[f"{reader}: {row.says}"] += 1
