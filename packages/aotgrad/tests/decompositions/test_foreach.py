"""List ops against eager's, and whole optimizer steps as graphs."""

from __future__ import annotations

import pytest
import torch

import aotgrad

TABLE = {op: function for op, function in aotgrad.core_decompositions().items() if "_foreach_" in str(op)}


def arguments(op) -> list[object]:
    lists = [[torch.rand(3) + 0.5, torch.rand(2, 2) + 0.5] for _ in range(3)]
    made: list[object] = []
    for argument in op._schema.arguments:
        kind = str(argument.type)
        if argument.has_default_value():
            continue
        if kind == "List[Tensor]":
            made.append(lists.pop())
        elif kind == "Tensor":
            made.append(torch.tensor(1.5))
        elif kind.startswith("List"):
            made.append([0.5, 2.0])
        else:
            made.append(0.75)
    return made


@pytest.mark.parametrize("op", sorted(TABLE, key=str), ids=str)
def test_list_op(op) -> None:
    given = arguments(op)
    torch.testing.assert_close(TABLE[op](*given), list(op(*given)), equal_nan=True)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.RMSprop])
def test_optimizer_step(kind, check) -> None:
    def step(first, second, grad_first, grad_second):
        optimizer = kind([first, second], lr=0.1, foreach=True)
        first.grad, second.grad = grad_first, grad_second
        optimizer.step()
        first.grad = second.grad = None
        return ()

    check(step, torch.rand(3), torch.rand(2, 2), torch.rand(3), torch.rand(2, 2))


def test_each_with_itself(check) -> None:
    def program(first, second):
        torch._foreach_mul_([first, second], [first, second])
        return first + 1

    check(program, torch.rand(3), torch.rand(2, 2))
