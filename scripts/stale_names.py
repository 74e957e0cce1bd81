"""Find what docs and docstrings name although it is no longer there: `make check` runs it.

Checked are the paths, modules and names of code in docs/architecture.md and CONTRIBUTING.md, the
modules on all pages of docs/, and the exceptions and arguments in docstrings.
"""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
MADE = "tests/out/"  # what a run of the tests leaves, which a clean clone lacks
BASES = ("", "src/ktui", "src", "tests", "tests/unit", "docs")
"""The folders that paths on these pages start from."""

_CODE = re.compile(r"`([^`\n]+)`")
_NAME_OF_FILE = re.compile(r"`(\w+)`(?: \([^)]*\))? (?:of|in) `([\w./-]+\.py)`")
_CLASS = re.compile(r"^ *class (\w+)(?:\[.*\])?\((.*?)\):", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"(?<![\w./-])(?:src|tests|docs|scripts|bench|findings|themes)/[\w./-]*\w")
_MODULE = re.compile(r"python3? -m ((?:support|bench|ktui)(?:\.\w+)*)")
_FILE = re.compile(r"[\w.-]+(?:/[\w.-]+)*/?")
_ENDINGS = (".py", ".md", ".toml", ".yaml", ".gz", ".json", "/")
_SECTION = re.compile(r"^(\w+):$")
_ENTRY = re.compile(r"^    (?! )([\w., ]+?)(?: \(.*\))?:(?: |$)")


def in_pages(root: Path) -> Iterator[str]:
    """Yield a line for each path, module or name of code on the pages that does not exist."""
    for at in sorted({*(root / "docs").glob("*.md")} - {root / page for page in PAGES}):
        named = re.findall(r"`([\w./-]+/[\w.-]+\.py)`", at.read_text(encoding="utf-8"))
        yield from (f"docs/{at.name}: no {path}" for path in named if not _found(root, path))
    code = "\n".join(_sources(root, "src", "tests", "bench").values())
    known = frozenset(re.findall(r"\b[A-Z]\w+", code))
    for page in PAGES:
        text = (root / page).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            where = f"{page}:{number}"
            yield from (f"{where}: no {path}" for path in _missing_paths(root, line))
            for module in _MODULE.findall(line):
                if not _is_module(root, module):
                    yield f"{where}: no module {module}"
            for name in _CODE.findall(line):
                if re.fullmatch(r"[A-Z]\w+", name) and name not in known:
                    yield f"{where}: nothing is called {name}"
            for name, path in _NAME_OF_FILE.findall(line):
                found = _found(root, path)
                if found and not re.search(rf"\b{name}\b", found.read_text(encoding="utf-8")):
                    yield f"{where}: no {name} in {path}"


def _missing_paths(root: Path, line: str) -> Iterator[str]:
    names = [
        name
        for name in _CODE.findall(line)
        if _FILE.fullmatch(name) and name.endswith(_ENDINGS) and not name.startswith(".")
    ]
    found = [at for name in names if (at := _found(root, name)) is not None]
    folders = [at if at.is_dir() else at.parent for at in found]  # of names without a folder
    for name in names:
        if _found(root, name) is None and not any((each / name).exists() for each in folders):
            yield name
    named = (path for path in _PATH.findall(_CODE.sub("", line)) if not path.startswith(MADE))
    yield from (path for path in named if not _found(root, path))


def _found(root: Path, path: str) -> Path | None:
    """Return the file or folder of a path on a page; None if there is none."""
    return next((at for base in BASES if (at := root / base / path).exists()), None)


def _is_module(root: Path, module: str) -> bool:
    path = module.replace(".", "/")
    return any(_found(root, f"{path}{ending}") for ending in (".py", "/__main__.py"))


def _sources(root: Path, *folders: str) -> dict[Path, str]:
    files = chain(*((root / folder).rglob("*.py") for folder in folders))
    return {file: file.read_text(encoding="utf-8") for file in sorted(files)}


def in_docstrings(root: Path) -> Iterator[str]:
    """Yield a line for each exception or argument of a docstring that does not exist."""
    sources = _sources(root, "src")
    bases = {
        name: {base.split(".")[-1].strip() for base in given.split(",")}
        for text in sources.values()
        for name, given in _CLASS.findall(text)
    }
    for file, text in sources.items():
        if "Raises:" not in text and "Args:" not in text:
            continue
        tree = ast.parse(text)
        imported = _imported(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            where = f"{file.relative_to(root)}:{node.lineno}: {node.name}"
            for section, name in _entries(ast.get_docstring(node) or ""):
                if section == "Raises" and not _is_exception(name, bases, imported):
                    yield f"{where} raises {name}, which is no exception here"
                if section == "Args" and name not in _arguments(node):
                    yield f"{where} has no argument {name}"


def _entries(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield each name that a section of a docstring describes, with the section."""
    section = ""
    for line in docstring.splitlines():
        if heading := _SECTION.match(line):
            section = heading[1]
        elif line and not line.startswith(" "):
            section = ""
        elif section in {"Args", "Raises"} and (entry := _ENTRY.match(line)):
            yield from ((section, name.strip()) for name in re.split(r", | or ", entry[1]))


def _imported(tree: ast.Module) -> frozenset[str]:
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return frozenset(alias.asname or alias.name for node in imports for alias in node.names)


def _is_exception(name: str, bases: dict[str, set[str]], imported: frozenset[str]) -> bool:
    """Tell whether a name is an exception: a built-in one, of the package, or of a library."""
    first, *rest = name.split(".")
    if rest:
        return first in imported
    if name not in bases:
        built_in = getattr(builtins, name, None)
        return name in imported or (
            isinstance(built_in, type) and issubclass(built_in, BaseException)
        )
    return any(
        base.endswith(("Error", "Exception")) or _is_exception(base, bases, imported)
        for base in bases[name]
    )


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> frozenset[str]:
    if isinstance(node, ast.ClassDef):  # of a record, its fields; else what any method takes
        fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
        methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
        return frozenset(ast.unparse(field) for field in fields).union(*map(_arguments, methods))
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return frozenset(each.arg for each in every if each is not None)


if __name__ == "__main__":
    sys.exit("\n".join([*in_pages(ROOT), *in_docstrings(ROOT)]) or None)
