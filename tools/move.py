"""Makes one module of several, and says so everywhere: imports, tables of mutants and planted bugs, documents.

python -m tools.move moves.toml

Each `[[module]]` has its `new` dotted name, its `old` modules in the order in which their text is to stand, and a
`docstring`, or that of the first old one is kept. `names` maps full names that would clash to new ones; other names
stay. A module that is only moved has one old name. What it cannot do, it refuses before it writes anything.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
NOT_CODE = (".md", ".toml", ".html", ".jinja", ".j2", ".txt", ".yml", ".yaml", "Makefile", ".mk")
HISTORY = ("docs/decisions/", "CHANGELOG.md", "tools/renames.toml")
"""What was written of a time keeps the words of that time."""

Edit = tuple[int, int, bytes]
"""From, to, and what takes the place of these bytes."""


class Refusal(Exception):
    """Why nothing was moved."""


class Module(NamedTuple):
    """One module to be made."""

    new: str
    docstring: str
    old: tuple[str, ...]
    names: dict[str, str]


def path_of(module: str) -> Path:
    """Where a module of the package stands."""
    return SOURCES.joinpath(*module.split(".")).with_suffix(".py")


class Text:
    """A file of Python, its tree, and the changes that are to be made to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = path.read_bytes()
        self.tree = ast.parse(self.source)
        self._starts = [0]
        for line in self.source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self.edits: list[Edit] = []

    def place(self, line: int, column: int) -> int:
        """The byte at this line and column."""
        return self._starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The bytes of a node."""
        return (
            self.place(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self.place(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def replace(self, node: ast.AST, text: str) -> None:
        """Put a text in the place of a node."""
        self.edits.append((*self.span(node), text.encode()))

    def edited(self) -> bytes:
        """The text with all changes."""
        result = self.source
        for begin, end, new in sorted(set(self.edits), reverse=True):
            result = result[:begin] + new + result[end:]
        return result


def defined(tree: ast.Module) -> Iterator[str]:
    """Names that a module defines at its top."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (t.id for target in node.targets for t in ast.walk(target) if isinstance(t, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


class Mover:
    """Moves according to a table."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = list(modules)
        self.new_of = {old: module for module in self.modules for old in module.old}
        self.kept_aliases: list[str] = []

    def renamed(self, module: str, name: str) -> str:
        """The name that a name of an old module has from now on."""
        return self.new_of[module].names.get(f"{module}.{name}", name)

    def check(self) -> None:
        """Names of modules that become one must not clash."""
        problems = []
        for module in self.modules:
            names = Counter[str]()
            imported: dict[str, str] = {}
            for old in module.old:
                tree = ast.parse(path_of(old).read_bytes())
                names.update(self.renamed(old, name) for name in set(defined(tree)))
                for node in tree.body:
                    if isinstance(node, ast.ImportFrom) and node.module and node.module not in module.old:
                        for alias in node.names:
                            what = f"{node.module}.{alias.name}"
                            as_ = alias.asname or alias.name
                            if what in module.old:
                                continue
                            if imported.setdefault(as_, what) != what:
                                problems.append(f"{module.new}: {as_} is {what} and {imported[as_]}")
            problems += [f"{module.new}: {name} in {module.old}" for name, count in names.items() if count > 1]
            problems += [f"{module.new}: {name} is imported and defined" for name in names if name in imported]
        if problems:
            raise Refusal("\n".join(problems))

    def rewrite(self, text: Text, group: Module | None = None) -> None:
        """Change imports of old modules, uses of their names, and texts that name them."""
        aliases: dict[str, str] = {}
        renames: dict[str, str] = {}
        for node in ast.walk(text.tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self._import(text, node, group, aliases, renames)
        own = None
        if group is not None:
            own = next(old for old in group.old if path_of(old) == text.path)
            renames |= {
                name.rpartition(".")[2]: new for name, new in group.names.items() if name.rpartition(".")[0] == own
            }
        for node in ast.walk(text.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
                module = aliases[node.value.id]
                name = self.renamed(module, node.attr)
                if group is not None and module in group.old:
                    text.replace(node, name)
                elif name != node.attr:
                    text.replace(node, f"{node.value.id}.{name}")
            elif isinstance(node, ast.Name) and node.id in renames:
                text.replace(node, renames[node.id])
            elif (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and own and node.name in renames
            ):
                begin = text.place(node.lineno, node.col_offset)
                at = text.source.index(node.name.encode(), begin)
                text.edits.append((at, at + len(node.name), renames[node.name].encode()))

    def _import(
        self, text: Text, node: ast.ImportFrom, group: Module | None, aliases: dict[str, str], renames: dict[str, str]
    ) -> None:
        assert node.module is not None
        lines: list[str] = []
        changes = False
        for alias in node.names:
            as_ = f" as {alias.asname}" if alias.asname else ""
            whole = f"{node.module}.{alias.name}"
            if node.module in self.new_of:
                module, changes = self.new_of[node.module], True
                name = self.renamed(node.module, alias.name)
                if name != alias.name and not alias.asname:
                    renames[alias.name] = name
                if module is group:
                    if alias.asname and alias.asname != name:
                        renames[alias.asname] = name
                    continue
                if alias.asname == alias.name:
                    as_ = f" as {name}"
                lines.append(f"from {module.new} import {name}{as_}")
            elif whole in self.new_of:
                module = self.new_of[whole]
                aliases[alias.asname or alias.name] = whole
                changes = changes or module.new != whole or module is group
                if module is group:
                    continue
                parent, _, last = module.new.rpartition(".")
                as_name = alias.asname or alias.name
                if as_name != last:
                    if not alias.asname:
                        self.kept_aliases.append(f"{text.path.relative_to(ROOT)}: {module.new} as {as_name}")
                    lines.append(f"from {parent} import {last} as {as_name}")
                else:
                    lines.append(f"from {parent} import {last}")
            else:
                lines.append(f"from {node.module} import {alias.name}{as_}")
        if changes:
            indent = " " * node.col_offset
            text.replace(node, f"\n{indent}".join(lines) if lines else "pass" if node.col_offset else "")

    def merged(self, module: Module) -> bytes:
        """The text of the new module."""
        imports: list[bytes] = []
        bodies: list[bytes] = []
        for old in module.old:
            text = Text(path_of(old))
            self.rewrite(text, module)
            edited = text.edited()
            lines = edited.splitlines(keepends=True)
            tree = ast.parse(edited)
            body = tree.body
            first = 0
            if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
                first = body[0].end_lineno or 0
                body = body[1:]
            kept = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
            keep = [(node.lineno - 1, node.end_lineno or node.lineno) for node in kept]
            imports += [b"".join(lines[begin:end]) for begin, end in keep]
            inside = {number for begin, end in keep for number in range(begin, end)}
            rest = b"".join(line for number, line in enumerate(lines) if number >= first and number not in inside)
            bodies.append(rest.strip(b"\n"))
        docstring = module.docstring or ast.get_docstring(ast.parse(path_of(module.old[0]).read_bytes())) or ""
        ends = "\n" if "\n" in docstring and not docstring.endswith("\n") else ""
        head = f'"""{docstring}{ends}"""\n\n'.encode()
        return head + b"".join(imports) + b"\n\n" + b"\n\n\n".join(part for part in bodies if part) + b"\n"

    def run(self) -> None:
        """Move all."""
        self.check()
        new_texts = {path_of(module.new): self.merged(module) for module in self.modules}
        olds = {path_of(old) for old in self.new_of}
        changed: dict[Path, bytes] = {}
        for path in tracked(".py"):
            if path not in olds:
                text = Text(path)
                self.rewrite(text)
                changed[path] = text.edited()
        for path in olds:
            path.unlink()
        for path, data in (changed | new_texts).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for folder in {path.parent for path in new_texts}:
            if not (folder / "__init__.py").exists():
                (folder / "__init__.py").write_text('""""""\n')
        self._texts()

    def _texts(self) -> None:
        """Dotted names and paths in strings, comments and documents."""
        table: dict[str, str] = {}
        for old, module in self.new_of.items():
            for full, new in module.names.items():
                if full.rpartition(".")[0] == old:
                    table[full] = f"{module.new}.{new}"
            if old != module.new:
                table[old] = module.new
                before, after = (
                    name.removeprefix("duenotice.").replace(".", "/") + ".py" for name in (old, module.new)
                )
                table[before] = after
        if not table:
            return
        words = sorted(table, key=len, reverse=True)
        pattern = re.compile(r"(?<![\w.])(?:" + "|".join(map(re.escape, words)) + r")(?!\w)")
        paths = re.compile(r"(?<=duenotice/)(?:" + "|".join(map(re.escape, words)) + r")(?!\w)")
        for path in tracked(".py", *NOT_CODE):
            if str(path.relative_to(ROOT)).startswith(HISTORY) or not path.exists():
                continue
            text = path.read_text(encoding="utf-8")
            new = paths.sub(lambda m: table[m[0]], pattern.sub(lambda m: table[m[0]], text))
            if new != text:
                path.write_text(new, encoding="utf-8")


def tracked(*endings: str) -> list[Path]:
    """Files of the repository."""
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [ROOT / line for line in out.splitlines() if line.endswith(endings) and (ROOT / line).is_file()]


def main() -> int:
    """Read the table and move."""
    table = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    mover = Mover(
        Module(row["new"], row.get("docstring", ""), tuple(row["old"]), row.get("names", {})) for row in table["module"]
    )
    try:
        mover.run()
    except Refusal as problem:
        print(problem)
        return 1
    for line in mover.kept_aliases:
        print("alias kept:", line)
    for command in (
        ["ruff", "check", "--fix", "--quiet", "--select", "I,F401,F811", "."],
        ["ruff", "format", "--quiet", "."],
    ):
        subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
