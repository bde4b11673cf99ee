"""What is true of operators and of torch's settings is read in one place each: elsewhere the parts ask."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "packages"

READERS = {
    "symshapes/facts/operators.py": ("alias_info", "Tag"),
    "symshapes/facts/promotion.py": ("promote_types",),
    "capture/settings.py": ("set_autocast_enabled", "set_autocast_dtype", "set_autocast_cache_enabled"),
}
READ_ONCE = {name: file for file, names in READERS.items() for name in names}
"""An attribute, and the one file that reads it. Naming a torch function in a table of functions is not reading it."""


def _readers(name: str) -> Iterator[str]:
    for path in sorted(SOURCES.glob("*/src/**/*.py")):
        text = path.read_text()
        if name not in text:
            continue
        tree = ast.parse(text)
        named = {id(item) for node in ast.walk(tree) if isinstance(node, ast.Set) for item in node.elts}
        read = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == name and id(n) not in named]
        if any(not (isinstance(n.value, ast.Name) and n.value.id == "np") for n in read):  # NumPy's are others
            yield path.relative_to(next(parent for parent in path.parents if parent.name == "src")).as_posix()


@pytest.mark.parametrize("name", READ_ONCE)
def test_one_file_reads_it(name: str) -> None:
    assert list(_readers(name)) == [READ_ONCE[name]]
