"""Count code lines, long modules and classes, complex functions and import cycles.

Run ``python benchmarks/code_size.py [CHECKOUT]``. Tests are not counted as source. A code line is neither blank nor a
comment nor part of a docstring.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from pathlib import Path

from attrs import frozen

MAX_MODULE_LINES = 400
MAX_CLASS_LINES = 250
MAX_METHODS = 20
MAX_COMPLEXITY = 10

_FOLDERS = ("core", "plugins", "contrib_envs", "contrib_algos", "examples", "benchmarks", "docs")


@frozen
class ClassSize:
    """Lines and methods of one class."""

    name: str
    lines: int
    methods: int


def source_files(root: Path, folder: str) -> list[Path]:
    """Return the Python files below a folder of the checkout, tests left out."""
    files = sorted((root / folder).rglob("*.py"))
    return [path for path in files if "tests" not in path.relative_to(root).parts]


def code_lines(path: Path) -> int:
    """Return the number of code lines of a file."""
    text = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def class_sizes(path: Path) -> Iterator[ClassSize]:
    """Yield the size of every class of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) for child in node.body)
            yield ClassSize(node.name, (node.end_lineno or node.lineno) - node.lineno + 1, methods)


def complexity(function: ast.AST) -> int:
    """Return the cyclomatic complexity of a function: 1 and one more for every decision in it.

    Decisions are branches, loops, handlers, cases, assertions, comprehensions and their conditions, and each operand of
    `and` and `or` after the first. Functions defined inside count with it.
    """
    count = 1
    for node in ast.walk(function):
        if isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
        elif isinstance(node, ast.For | ast.While | ast.AsyncFor):
            count += 1 + bool(node.orelse)
        elif isinstance(node, ast.If | ast.IfExp | ast.ExceptHandler | ast.Assert | ast.match_case):
            count += 1
    return count


def complex_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield name and complexity of the outermost functions of a file that are above the limit."""
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        for node in ast.iter_child_nodes(pending.pop()):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                pending.append(node)
            elif (count := complexity(node)) > MAX_COMPLEXITY:
                yield node.name, count


def import_graph(package: Path) -> dict[str, set[str]]:
    """Return the modules of a package that each of its modules imports at any level, imports for typing included.

    Args:
        package: Folder of the package, whose parent is on the import path.
    """
    top = package.parent
    files = {_module_name(path, top): path for path in sorted(package.rglob("*.py"))}
    return {name: _imported_modules(path, files.keys()) - {name} for name, path in files.items()}


def _imported_modules(path: Path, modules: AbstractSet[str]) -> set[str]:
    """Return those of `modules` that a file imports."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.update(_from_import_targets(node.module, node.names, modules))
    return imported & modules


def _from_import_targets(module: str, names: Iterable[ast.alias], modules: AbstractSet[str]) -> Iterator[str]:
    """Yield the module of each name of ``from module import …``: a submodule, or `module` itself."""
    for alias in names:
        target = f"{module}.{alias.name}"
        yield target if target in modules else module


def import_cycles(graph: Mapping[str, AbstractSet[str]]) -> list[list[str]]:
    """Return the groups of two or more modules that import each other in a circle, directly or not."""
    reachable = {name: _reachable(graph, name) for name in graph}
    cycles = {
        frozenset(other for other in graph if other in reachable[name] and name in reachable[other]) for name in graph
    }
    return sorted(sorted(cycle) for cycle in cycles if len(cycle) > 1)


def _module_name(path: Path, top: Path) -> str:
    parts = path.relative_to(top).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _reachable(graph: Mapping[str, AbstractSet[str]], start: str) -> set[str]:
    reachable: set[str] = set()
    pending = [start]
    while pending:
        for target in graph[pending.pop()]:
            if target not in reachable:
                reachable.add(target)
                pending.append(target)
    return reachable


def _print_totals(root: Path, counts: Mapping[Path, int]) -> None:
    core, kit = root / "core" / "ludus", root / "core" / "ludus" / "testing"
    kit_lines = sum(count for path, count in counts.items() if path.is_relative_to(kit))
    core_lines = sum(count for path, count in counts.items() if path.is_relative_to(core)) - kit_lines
    print(f"source files                 {len(counts)}")
    print(f"code lines                   {sum(counts.values())}")
    print(f"code lines of the core       {core_lines}")
    print(f"code lines of the kit        {kit_lines}")
    print(f"modules directly in core     {len(list(core.glob('*.py')))}")
    print(f"lines of tests               {_test_lines(root)}")


def _test_lines(root: Path) -> int:
    tests = [path for folder in (*_FOLDERS, "tests") for path in (root / folder).rglob("*.py")]
    tests = [path for path in tests if "tests" in path.relative_to(root).parts]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tests)


def _print_list(title: str, lines: Sequence[str]) -> None:
    print(f"{title:28} {len(lines)}", *(f"    {line}" for line in lines), sep="\n")


def _print_large(root: Path, paths: Collection[Path]) -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    _print_list(
        f"modules over {MAX_MODULE_LINES} lines",
        [f"{path.relative_to(root)}: {lines}" for path, lines in lengths.items() if lines > MAX_MODULE_LINES],
    )
    _print_list(
        f"classes over {MAX_CLASS_LINES} lines or {MAX_METHODS} methods",
        [
            f"{path.relative_to(root)}: {size.name}, {size.lines} lines, {size.methods} methods"
            for path in paths
            for size in class_sizes(path)
            if size.lines > MAX_CLASS_LINES or size.methods > MAX_METHODS
        ],
    )
    _print_list(
        f"functions of complexity over {MAX_COMPLEXITY}",
        [f"{path.relative_to(root)}: {name}, {count}" for path in paths for name, count in complex_functions(path)],
    )


def main() -> None:
    """Print the counts of a checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", default=Path(), help="root of the checkout")
    root = parser.parse_args().checkout.resolve()
    counts = {path: code_lines(path) for folder in _FOLDERS for path in source_files(root, folder)}
    _print_totals(root, counts)
    _print_large(root, counts)
    packages = [root / "core" / "ludus", *sorted(path.parent for path in root.glob("*/*/src/*/__init__.py"))]
    cycles = [cycle for package in packages for cycle in import_cycles(import_graph(package))]
    _print_list("import cycles", [f"{len(cycle)}: {' '.join(cycle)}" for cycle in cycles])


if __name__ == "__main__":
    main()
