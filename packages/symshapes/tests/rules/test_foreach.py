"""Ops over lists of tensors: what their rules foretell is what eager gives, numbers may be symbols, and what eager refuses is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from symshapes import FakeMode, ShapeEnv, missing_rules, reset_rules
from symshapes.rules.registry import RULES

OPS = sorted((op for op in RULES if "_foreach_" in str(op)), key=str)


def arguments(op: Any) -> list[Any]:
    lists = [[torch.rand(3), torch.rand(2, 4).t(), torch.rand(())] for _ in range(3)]
    made: list[Any] = []
    for argument in op._schema.arguments:
        kind = str(argument.type)
        if kind == "List[Tensor]":
            made.append(lists.pop())
        elif kind.startswith("List"):
            made.append([0.5, 2.0, 1.5])
        elif not argument.has_default_value():
            made.append(torch.tensor(1.5) if kind == "Tensor" else 0.75)
    return made


def fakes(mode: FakeMode, value: Any) -> Any:
    if isinstance(value, list):
        return [fakes(mode, item) for item in value]
    return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value


def described(values: Any) -> Any:
    return values and [(each.shape, each.stride(), each.dtype) for each in values]


@pytest.mark.parametrize("op", OPS, ids=str)
def test_foretold(op: Any) -> None:
    given, mode = arguments(op), FakeMode()
    foretold = [fakes(mode, value) for value in given]
    reset_rules()
    with mode:
        found = op(*foretold)
    assert not missing_rules()
    assert described(found) == described(op(*given))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, s: torch._foreach_div_([x], s),
        lambda x, s: torch._foreach_mul_([x, x.clone()], [s, 2.0]),
        lambda x, s: torch._foreach_addcdiv_([x], [x], [x], [s]),
        lambda x, s: torch._foreach_add_([x], [x], alpha=s),
        lambda x, s: torch._foreach_lerp_([x], [x], s),
    ],
)
def test_a_symbolic_number_stays_one(call: Any) -> None:
    env = ShapeEnv()
    mode = FakeMode(env)
    number = env.create_float(2.5, "number")
    with mode:
        call(mode.from_tensor(torch.ones(3)), number)
    assert not env.produce_guard_code().parts


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch._foreach_add_([torch.ones(3)], [torch.ones(2, 3)]),
        lambda: torch._foreach_mul_([torch.ones(3, dtype=torch.int64)], [torch.ones(3)]),
        lambda: torch._foreach_add([torch.ones(3)], [torch.ones(3), torch.ones(3)]),
    ],
)
def test_refused_as_in_eager(call: Any) -> None:
    with pytest.raises(RuntimeError) as eager:
        call()
    with FakeMode(), pytest.raises(RuntimeError) as found:
        call()
    assert str(found.value) == str(eager.value)
