"""Writes the pages that are made from code; `--check` only says which of them are not current."""

import sys

from tools.references import stale, write

if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        found = stale()
        print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
        sys.exit(bool(found))
    write()
