"""Writes `client/operator/async_verbs.py` from `verbs.py`: the same methods, with `await`."""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1] / "src" / "duenotice" / "client" / "operator"
SOURCE, MADE = HERE / "verbs.py", HERE / "async_verbs.py"

OPENING = '"""The verbs of `verbs.py` with `await`: made from it by `tools/async_verbs.py`; change that one."""\n'
_METHOD = re.compile(r"    def (\w+)\(((?:.(?!\n    def ))*?)\) -> (?!AsyncListing)", re.S)


def made() -> str:
    """What the file has to be."""
    text = SOURCE.read_text()
    text = OPENING + text[text.index('"""\n', 3) + 4 :]
    text = re.sub(r"\bListing\b", "AsyncListing", text).replace("class Verbs(", "class AsyncVerbs(")
    text = text.replace("operator.listing", "operator.async_listing")
    # A list is asked for when it is iterated, so only the other methods are coroutines.
    text = _METHOD.sub(r"    async def \1(\2) -> ", text)
    return _formatted(text.replace("return self._do(", "return await self._do("))


def _formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(MADE), "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    MADE.write_text(made())
    print(f"{MADE} is written.")
