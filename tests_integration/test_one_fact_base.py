"""What is true of operators and of torch's settings is read in one place each: elsewhere the parts ask."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "packages"

READ_ONCE = {
    # an operator's schema and tags
    "alias_info": "symshapes/facts/operators.py",
    "Tag": "symshapes/facts/operators.py",
    # type promotion
    "promote_types": "symshapes/facts/promotion.py",
    # torch's settings that a graph may change
    "set_autocast_enabled": "capture/settings.py",
    "set_autocast_dtype": "capture/settings.py",
    "set_autocast_cache_enabled": "capture/settings.py",
}
"""An attribute, and the one file that reads it. Naming a torch function in a table of functions is not reading it."""


def _readers(name: str) -> Iterator[str]:
    for path in sorted(SOURCES.glob("*/src/**/*.py")):
        text = path.read_text()
        if name not in text:
            continue
        tree = ast.parse(text)
        named = {id(item) for node in ast.walk(tree) if isinstance(node, ast.Set) for item in node.elts}
        if any(isinstance(n, ast.Attribute) and n.attr == name and id(n) not in named for n in ast.walk(tree)):
            yield path.relative_to(next(parent for parent in path.parents if parent.name == "src")).as_posix()


@pytest.mark.parametrize("name", READ_ONCE)
def test_one_file_reads_it(name: str) -> None:
    assert list(_readers(name)) == [READ_ONCE[name]]
