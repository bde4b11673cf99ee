"""What torch keeps to itself is touched in one file of each package, its `_torch.py`: a new torch is that file's work."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = sorted(path.parent for path in Path(__file__).parents[1].glob("packages/*/pyproject.toml"))

FREE = ("torch.utils._python_dispatch.", "torch.utils._pytree.", "torch.ops.")
"""Private by their names alone: everybody outside torch builds on them (operators have the names that they have)."""


def paths(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every dotted name that begins with torch, with its line; names that are imported from torch in full."""
    begun = {"torch": "torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "torch":
            for alias in node.names:
                begun[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "torch")
    for node in ast.walk(tree):
        parts: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if parts and isinstance(inner, ast.Name) and inner.id in begun:
            yield node.lineno, ".".join([begun[inner.id], *parts])  # type: ignore[attr-defined]


def private(path: str) -> bool:
    """Whether some part of a dotted name has one leading underscore."""
    inside = not f"{path}.".startswith(FREE)
    return inside and any(part.startswith("_") and not part.startswith("__") for part in path.split("."))


def test_what_counts():
    text = "import torch\nfrom torch import fx\nfrom torch.fx.graph import _x\ntorch.ops.aten._y.default\nfx._z.a\ntorch._C"
    found = sorted({path for _, path in paths(ast.parse(text)) if private(path)})
    assert found == ["torch._C", "torch.fx._z", "torch.fx._z.a", "torch.fx.graph._x"]
    assert not private("torch.utils._pytree.tree_map") and not private("torch.__version__")


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_private_parts_of_torch(package: Path):
    found = [
        f"{file.relative_to(package)}:{line}: {path}"
        for file in sorted((package / "src").rglob("*.py"))
        if file.name != "_torch.py"
        for line, path in paths(ast.parse(file.read_text()))
        if private(path)
    ]
    assert not found, "to be had by `_torch.py`:\n" + "\n".join(found)
