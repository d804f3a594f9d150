"""Count what makes the code hard to carry on: lines, long modules and classes, complex functions, import cycles.

Run ``python benchmarks/code_size.py [CHECKOUT]``. Tests are not counted as source. A code line is neither blank nor a
comment nor part of a docstring.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator, Mapping, Set as AbstractSet
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
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                waiting.append(node)
            elif (count := complexity(node)) > MAX_COMPLEXITY:
                yield node.name, count


def import_graph(package: Path) -> dict[str, set[str]]:
    """Return which modules of a package import which others at any level, imports for type checking included.

    Args:
        package: The folder of the package, whose parent is on the import path.
    """
    top = package.parent
    files = {_module_name(path, top): path for path in sorted(package.rglob("*.py"))}
    graph: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                targets = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                targets = {f"{node.module}.{alias.name}" for alias in node.names}
                targets = {target if target in files else node.module for target in targets}
            else:
                continue
            graph[name] |= {target for target in targets if target in files and target != name}
    return graph


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
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for target in graph[waiting.pop()]:
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def _packages(root: Path) -> list[Path]:
    return [root / "core" / "ludus", *sorted(path.parent for path in root.glob("*/*/src/*/__init__.py"))]


def main() -> None:
    """Print the counts of a checkout."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    counts = {path: code_lines(path) for folder in _FOLDERS for path in source_files(root, folder)}
    kit = root / "core" / "ludus" / "testing"
    core = {path: count for path, count in counts.items() if path.is_relative_to(root / "core")}
    print(f"source files                 {len(counts)}")
    print(f"code lines                   {sum(counts.values())}")
    print(f"code lines of the core       {sum(count for path, count in core.items() if not path.is_relative_to(kit))}")
    print(f"code lines of the kit        {sum(count for path, count in core.items() if path.is_relative_to(kit))}")
    ground = list((root / "core" / "ludus").glob("*.py"))
    print(f"modules directly in core     {len(ground)}")
    tests = [path for path in root.rglob("test*/*.py") if not path.relative_to(root).parts[0].startswith(".")]
    print(f"lines of tests               {sum(len(path.read_text().splitlines()) for path in tests)}")
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in counts}
    _print_list(
        f"modules over {MAX_MODULE_LINES} lines",
        [f"{path.relative_to(root)}: {count}" for path, count in lines.items() if count > MAX_MODULE_LINES],
    )
    large = [
        f"{path.relative_to(root)}: {size.name}, {size.lines} lines, {size.methods} methods"
        for path in counts
        for size in class_sizes(path)
        if size.lines > MAX_CLASS_LINES or size.methods > MAX_METHODS
    ]
    _print_list(f"classes over {MAX_CLASS_LINES} lines or {MAX_METHODS} methods", large)
    functions = [
        f"{path.relative_to(root)}: {name}, {count}" for path in counts for name, count in complex_functions(path)
    ]
    _print_list(f"functions of complexity over {MAX_COMPLEXITY}", functions)
    cycles = [cycle for package in _packages(root) for cycle in import_cycles(import_graph(package))]
    _print_list("import cycles", [f"{len(cycle)}: {' '.join(cycle)}" for cycle in cycles])


def _print_list(title: str, lines: list[str]) -> None:
    print(f"{title:28} {len(lines)}")
    for line in lines:
        print(f"    {line}")


if __name__ == "__main__":
    main()
