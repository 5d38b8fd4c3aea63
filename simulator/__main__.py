"""`python -m simulator --seed 7`: one world, or many; a seed that fails is cut down and told how to replay it."""

import argparse
import secrets
import sys

import msgspec

from simulator.faults import TABLE, Action
from simulator.runs import SHAPES, Outcome, actions_of, cut_down, run, shape_of
from simulator.world import SET_UP, Shape


def main() -> int:
    """Run what the command line asks for; 1 when a promise was broken."""
    asked = _arguments()
    if asked.list:
        for kind in TABLE.values():
            print(f"{kind.name:24} {'fault' if kind.is_fault else 'act':6} {kind.says}")
        return 0
    keep = None if asked.keep is None else {int(number) for number in asked.keep.split(",") if number}
    first = asked.seed if asked.seed is not None else secrets.randbits(31)
    for seed in range(first, first + asked.count):
        outcome = run(seed, asked.hours, asked.without, keep, asked.trace, _shape(seed, asked))
        print(msgspec.json.encode(outcome).decode() if asked.json else _line(outcome), flush=True)
        if outcome.violations:
            for violation in outcome.violations:
                print(f"  {violation}", file=sys.stderr)
            if keep is None and not asked.whole:
                _tell_shortest(seed, asked)
            return 1
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulator", description=__doc__)
    parser.add_argument("--seed", type=int, help="which world; a random one without it")
    parser.add_argument("--count", type=int, default=1, help="how many worlds, one seed after the other")
    parser.add_argument("--hours", type=float, help="virtual hours that things happen in; drawn without it")
    parser.add_argument("--shape", choices=list(SHAPES), default="any", help="a world of one kind")
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="leave out a fault or an act")
    parser.add_argument("--keep", metavar="1,2,3", help="only the actions with these numbers")
    parser.add_argument("--trace", action="store_true", help="tell all that happens")
    parser.add_argument("--json", action="store_true", help="print outcomes as JSON")
    parser.add_argument("--whole", action="store_true", help="do not cut down a seed that fails")
    parser.add_argument("--list", action="store_true", help="list all faults and acts")
    return parser.parse_args()


def _line(outcome: Outcome) -> str:
    hours, faults = outcome.virtual_seconds / 3600, sum(outcome.faults.values())
    return (
        f"seed {outcome.seed}: {hours:.1f} h, {outcome.actions} actions, {faults} faults and acts came true, "
        f"{outcome.records} records, {outcome.documents} documents, {outcome.speed:.0f} s/s, "
        f"{len(outcome.violations)} violations"
    )


def _shape(seed: int, asked: argparse.Namespace) -> Shape:
    return SHAPES[asked.shape](seed) if asked.hours is None else shape_of(seed, asked.hours)


def told(action: Action) -> str:
    """An action, at the moment at which the trace has it."""
    return f"  #{action.number:<4} {SET_UP + action.at:9.1f} s  {action.kind:24} {TABLE[action.kind].says}"


def _tell_shortest(seed: int, asked: argparse.Namespace) -> None:
    shape = _shape(seed, asked)
    kept, outcome = cut_down(seed, shape, asked.without)
    print(f"\nIt still fails with {len(kept)} of {len(actions_of(seed, shape, asked.without))} actions:")
    for action in kept:
        print(told(action))
    for violation in outcome.violations:
        print(f"  {violation}")
    numbers = ",".join(str(action.number) for action in kept)
    hours = "" if asked.hours is None else f" --hours {asked.hours:g}"
    hours += "" if asked.shape == "any" else f" --shape {asked.shape}"
    print(f"\nReplay it:  python -m simulator --seed {seed}{hours} --keep {numbers or '-1'} --trace")


if __name__ == "__main__":
    sys.exit(main())
