"""No package names a module of torch that this project replaces, in an import, an attribute or a string."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parent.parent / "packages"
REPLACED = (
    *("torch.compile", "torch.compiler", "torch._dynamo", "torch._inductor", "torch._functorch", "torch._subclasses"),
    *("torch._guards", "torch.fx.experimental", "torch._decomp", "torch._refs", "torch._prims", "torch._prims_common"),
    *("torch._higher_order_ops", "torch.export", "torch.jit"),
)
SOURCES = sorted(PACKAGES.glob("*/src/**/*.py"))


def _names(tree: ast.AST) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Attribute):
            found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
            found += [(node.lineno, str(a.value)) for a in node.args if isinstance(a, ast.Constant)]
    return found


def test_there_are_sources() -> None:
    assert len(SOURCES) > 50


@pytest.mark.parametrize("package", sorted({p.relative_to(PACKAGES).parts[0] for p in SOURCES}))
def test_package_imports_nothing_it_replaces(package: str) -> None:
    bad = [
        f"{path}:{line}: {name}"
        for path in SOURCES
        if path.relative_to(PACKAGES).parts[0] == package
        for line, name in _names(ast.parse(path.read_text()))
        if any(name == r or name.startswith(r + ".") for r in REPLACED)
    ]
    assert not bad, "\n".join(bad)
