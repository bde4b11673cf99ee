"""CONTRIBUTING's recipe for a shape rule, carried out from outside the package, word for word."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from symshapes import DimPolicy, FakeMode, ShapeEnv, missing_rules, reset_rules


@pytest.fixture
def op() -> Iterator[torch._ops.OpOverload]:
    """An operator of the user's own, of which torch knows no metadata."""
    library = torch.library.Library("recipe", "FRAGMENT")
    library.define("rows_twice(Tensor x) -> Tensor")
    library.impl("rows_twice", lambda x: torch.cat([x, x]), "CPU")
    yield torch.ops.recipe.rows_twice.default
    library._destroy()
    reset_rules()


def _recipe() -> str:
    text = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()
    section = re.search(r"^## A shape rule$(.*?)^## ", text, re.M | re.S)
    assert section is not None
    return re.findall(r"```python\n(.*?)```", section[1], re.S)[1]


def test_a_shape_rule(op: torch._ops.OpOverload) -> None:
    sizes = [DimPolicy.DYNAMIC, DimPolicy.STATIC]
    real = torch.empty(3, 4).t()
    with FakeMode() as mode, pytest.raises(NotImplementedError):  # and that there was no rule is not remembered
        op(mode.from_tensor(real))
    exec(_recipe(), {"torch": torch})
    with FakeMode(ShapeEnv()) as mode:
        found = op(mode.from_tensor(real, source="x", policy=sizes))
    assert str(found.shape[0].node.expr) == "2*s0" and found.shape[1] == 3
    assert str(op) not in missing_rules()
    with FakeMode() as plain:
        static = op(plain.from_tensor(real))
    expected = op(real)
    assert (static.shape, static.stride(), static.dtype) == (expected.shape, expected.stride(), expected.dtype)
