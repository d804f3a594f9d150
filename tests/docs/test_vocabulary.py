"""Names and words that docs/glossary.md retires do not return."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "plugins", "contrib_envs", "contrib_algos", "examples", "benchmarks", "docs", "tests")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path != Path(__file__))
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = sorted(path for pattern in ("*.md", "*/*.md", "*/*/*.md") for path in ROOT.glob(pattern) if path != GLOSSARY)
WORDS = re.compile(
    r"\b(says?|said|saying|tells?|told|telling|hears?|heard|hearing|lends?|lent|anew|whom"
    r"|somebody|nobody|everybody|anybody)\b",
    re.IGNORECASE,
)


def retired_names():
    """Return the names that the glossary retires."""
    return set(re.findall(r"^\| `(\w+)` \| `\w+` \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE))


def names(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of every identifier of a source text."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of every line of comments and docstrings; what stands in backticks is code."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            docstring = node.body[0]
            for offset, line in enumerate(ast.get_docstring(node, clean=False).splitlines()):
                yield docstring.lineno + offset, re.sub(r"`+[^`]*`+", "", line)


def relative(path):
    """Return a path as the ids of the tests show it."""
    return str(path.relative_to(ROOT))


def test_no_retired_name_returns():
    """No class, function, argument, attribute or variable has one."""
    retired = retired_names()
    assert len(retired) > 10
    found = [
        f"{relative(path)}:{line}: {name}"
        for path in SOURCES
        for line, name in names(path.read_text(encoding="utf-8"))
        if name in retired
    ]
    assert found == []


def test_no_retired_word_returns_to_the_code():
    """Comments and docstrings use the field's words."""
    found = [
        f"{relative(path)}:{line}: {text.strip()}"
        for path in SOURCES
        for line, text in prose(path.read_text(encoding="utf-8"))
        if WORDS.search(text)
    ]
    assert found == []


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_no_retired_word_returns_to_the_pages(path):
    """So do the pages."""
    lines = [re.sub(r"`+[^`]*`+", "", line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [line for line in lines if WORDS.search(line)]
    assert found == []


@pytest.mark.parametrize("code", ["class Crew: ...", "x.births", "def f(*, whom): ..."])
def test_a_retired_name_is_found(code):
    """Wherever it stands."""
    assert {name for _, name in names(code)} & retired_names()


def test_a_retired_word_is_found():
    """In comments and docstrings, not in code."""
    text = '"""It says."""\n# told\nsays = "`told`"\n'
    assert [line for line, part in prose(text) if WORDS.search(part)] == [2, 1]
