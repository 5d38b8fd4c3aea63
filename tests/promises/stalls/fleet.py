"""The fleet that stalls are looked for in: one big scale set, and smaller things of which much can happen at once."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.promises.prober import POLLER

SPARE = "spare"
FARM_HOSTS = ("farm-a", "farm-b")
"""Those of the farm that lose their host find themselves on the other one: no host's name is less than these."""

_FARM_AT, _FLOCK_AT = 0x7F010000, 0x7F020000
_HERD, _SPARE = "127.128.0.0/10", "127.64.0.0/12"


class Size(NamedTuple):
    """How many VMs there are of each kind."""

    herd: int
    """In the one big scale set."""

    farm: int = 20_000
    """On their own, all on one host."""

    one_by_one: int = 10_000
    """How many of those are worked on one by one."""

    flock: int = 5_000
    """In one availability set, all on one host."""

    spare: int = 100_000
    """What another scale set, empty at first, is scaled out to and in again."""

    told: int = 20_000
    """How many instances of that are told before they are deleted."""

    selectors: int = 4_000
    """Equal selectors in one request."""

    @property
    def vms(self) -> int:
        """VMs of the usual fleet."""
        return 1 + self.herd + self.farm + self.flock


def only_the_poller() -> str:
    """A fleet file with nobody in it but the VM that polls."""
    return f'[[vms]]\nname = "poller"\naddress = "{POLLER}"\n'


def whole(size: Size, herd: str = "herd-0", zone: str = "1", coop: str = "coop-0") -> str:
    """The whole fleet; no name of the herd leaves it out. `coop` is the flock's host."""
    hosts = "".join(f'[[hosts]]\nname = "{name}"\n' for name in (*FARM_HOSTS, f"the-{coop}"))
    return "\n".join(
        (only_the_poller(), hosts, *_farm(size), _flock(size, f"the-{coop}"), *_scale_sets(size, herd, zone))
    )


def _farm(size: Size) -> Iterator[str]:
    for n in range(size.farm):
        tags = ", ".join(f'{tag} = "yes"' for tag in _tags(size, n))
        yield (
            f'[[vms]]\nname = "farm-{n}"\naddress = "{_dotted(_FARM_AT + n)}"\nhost = "{FARM_HOSTS[0]}"\n'
            f"spot = {'true' if n == 0 else 'false'}\ntags = {{ {tags} }}\n"
        )


def _tags(size: Size, n: int) -> Iterator[str]:
    """By these the first tenth, three tenths and all of `one_by_one` are chosen."""
    for tag, tenths in (("tenth", 1), ("third", 3), ("all", 10)):
        if n < size.one_by_one * tenths // 10:
            yield tag


def _flock(size: Size, host: str) -> str:
    vms = ",\n".join(
        f'  {{ name = "flock-{n}", address = "{_dotted(_FLOCK_AT + n)}", host = "{host}" }}' for n in range(size.flock)
    )
    return f'[[availability_sets]]\nname = "flock"\nvms = [\n{vms},\n]\n'


def _scale_sets(size: Size, herd: str, zone: str) -> Iterator[str]:
    if herd:
        yield (f'[[scale_sets]]\nname = "{herd}"\ncapacity = {size.herd}\naddresses = "{_HERD}"\nzone = "{zone}"\n')
    yield f'[[scale_sets]]\nname = "{SPARE}"\ncapacity = 0\naddresses = "{_SPARE}"\nterminate_notice = "PT5M"\n'


def _dotted(number: int) -> str:
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
