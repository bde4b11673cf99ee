# ruff: noqa
"""Tensors and their methods."""

from __future__ import annotations

import enum
import copy

import torch
import torch.nn.functional as F

from .classes import Point
from .registry import program


@program
def tensor_operations(x):
    y = torch.stack([x, x]).sum(0).view(-1)
    z = F.softmax(x, dim=-1) + torch.zeros_like(x) + torch.arange(x.shape[1])
    a, b = torch.max(x, dim=1)
    m = torch.topk(x, 1)
    return y, z.t(), a, b, m.values, m.indices, x.T, x.mean().neg(), -x, ~(x > 0), x**2, 2**x, 1 - x, x // 2, x % 2


@program
def tensor_metadata(x):
    return x.shape, x.size(), x.size(0), x.dim(), x.ndim, x.dtype, x.device, x.numel(), x.stride(), x.is_contiguous()


@program
def tensor_mutation(x):
    y = x.clone()
    y.add_(1)
    y[0] = 5
    y[:, 0] += 2
    y += 1
    y *= 2
    z = y
    z.mul_(0.5)
    return y, z is y


@program
def input_mutation(x):
    x.add_(1)
    x[0, 0] = 7
    return x.sum()


@program
def out_argument(x):
    out = torch.empty_like(x)
    torch.add(x, 1, out=out)
    return out


@program
def shape_arithmetic(x):
    n, m = x.shape
    return x.view(n * m // m, -1), x.reshape(-1, *x.shape[1:]), torch.Size([n, 2]), x.new_zeros(n), x.expand(n, m)


@program
def tensor_factories(x):
    t = torch.tensor([1.0, 2.0])
    return t, torch.ones(2, 3, dtype=torch.float64), torch.full((2,), 3.5), torch.eye(2), torch.linspace(0, 1, 3)


@program
def dtype_logic(x):
    if x.dtype == torch.float32 and x.device.type == "cpu" and not x.requires_grad:
        return x.to(torch.float64), torch.finfo(x.dtype).max, x.dtype.is_floating_point
    return None


@program
def random_numbers(x):
    return torch.rand(3), F.dropout(x, 0.5), torch.randn_like(x), torch.randint(0, 5, (2,))


@program
def match_statement(x):
    out = []
    for value in [1, "a", [1, 2], {"k": 3}, Point(1, 2), None]:
        match value:
            case 1:
                out.append("one")
            case str(s):
                out.append(s)
            case [a, b]:
                out.append(a + b)
            case {"k": k}:
                out.append(k)
            case Point(x=px):
                out.append(px)
            case _:
                out.append("other")
    return out, x


@program
def walrus_and_ternary(x):
    y = (n := x.shape[0]) + 1
    return x if n > 100 else x * n, y, (n and 0) or 5, not n, 1 < n < 100, None is None


@program
def copies(x):
    a = [1, [2, x]]
    b = copy.copy(a)
    b.append(3)
    return a, b, a[1] is b[1], copy.deepcopy([1, [2]])


@program
def places_in_sequences(x):
    places = torch.tensor([[0, 1], [2, 3], [1, 0]])
    rows, columns = zip(*places)
    y = x.clone()
    y[rows, columns] = 9
    return y, x[list(rows), columns], x[1:, [places[0, 1], places[0, 0]]]


@program
def attributes_that_tensors_are_given(x):
    x.count = getattr(x, "count", 0) + 1
    x.doubled, x.itself = x * 2, x
    made = x + x.count
    made.name_of_it, made.origin = "sum", x
    same = made.add_(1)
    return same.name_of_it, hasattr(made.view(-1), "name_of_it"), made.origin is x.itself, x.doubled + 1, made


@program
def compared_with_what_is_no_operand(x):
    class Kind(enum.Enum):
        A = 1

    others = [1, 1], (1,), {1: 2}, "a", b"a", Kind.A, {1}, x.shape, [x]
    return [(x == other, other == x, x != other) for other in others], x == 1
