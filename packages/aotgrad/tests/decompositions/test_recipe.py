"""CONTRIBUTING's recipe for a decomposition, carried out from outside the package, word for word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from aotgrad import core_decompositions, decompositions, trace_inference
from aotgrad.decompositions.registry import TABLE


@pytest.fixture
def softened() -> Iterator[torch._ops.OpOverload]:
    """An operator of the user's own; the recipe's decomposition of it is there for one test."""
    library = torch.library.Library("recipe", "FRAGMENT")
    library.define("softened(Tensor x) -> Tensor")
    library.impl("softened", lambda x: x * torch.sigmoid(x), "CPU")
    library.impl("softened", torch.empty_like, "Meta")
    op = torch.ops.recipe.softened.default
    yield op
    TABLE.pop(op, None)
    library._destroy()


def _recipe() -> str:
    """The recipe's code from outside the package."""
    text = (Path(__file__).parents[4] / "CONTRIBUTING.md").read_text()
    section = re.search(r"^## A decomposition$(.*?)^## ", text, re.M | re.S)
    assert section is not None
    return re.findall(r"```python\n(.*?)```", section[1], re.S)[-1]


def test_a_decomposition(softened: torch._ops.OpOverload) -> None:
    x = torch.randn(3, 4)

    def program(x: torch.Tensor) -> torch.Tensor:
        return softened(x) + 1

    def calls() -> list[str]:
        with torch.no_grad():
            graph = trace_inference(program, [x], core_decompositions()).module
        torch.testing.assert_close(graph(x)[0], program(x))
        return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]

    assert calls() == ["recipe.softened.default", "aten.add.Tensor"]
    exec(_recipe(), {})
    assert calls() == ["aten.sigmoid.default", "aten.mul.Tensor", "aten.add.Tensor"]
    assert list(decompositions("softened")) == [softened]
    with pytest.raises(ValueError, match=r"recipe\.softened\.default has a decomposition already"):
        exec(_recipe(), {})
