"""Programs that make parameters, modules and tensors by their class. Registered beside those of `autograd_inside`."""

from __future__ import annotations

import torch
from autograd_inside import program
from torch import nn


@program()
def parameter_made(m, x):
    p = nn.Parameter(torch.ones(4))
    (x * p).sum().backward()
    return p.grad, isinstance(p, nn.Parameter), p.is_leaf


@program()
def parameter_made_and_given_back(m, x):
    p = nn.Parameter(torch.ones(4))
    (x * p).sum().backward()
    return p, type(p), p.grad


@program()
def parameter_without_gradient(m, x):
    p = nn.Parameter(x * 2, requires_grad=False)
    return p, type(p)


@program()
def parameter_over_an_input(m, x):
    p = nn.Parameter(x)
    with torch.no_grad():
        p.mul_(2)
    return type(p), p.requires_grad


@program(breaks=True)
def parameter_and_what_depends_on_it(m, x):
    p = nn.Parameter(torch.ones(4))
    return p, (x * p).sum()


@program(breaks=True)
def parameter_of_integers(m, x):
    try:
        return nn.Parameter(torch.ones(4, dtype=torch.int64))
    except RuntimeError as error:
        return str(error)[:30]


@program()
def parameter_set_on_a_module(m, x):
    m[0].weight = nn.Parameter(torch.ones(5, 4))
    m[0].weight.grad = torch.ones(5, 4)
    return type(m[0].weight)


@program()
def module_made(m, x):
    layer = nn.Linear(4, 2)
    nn.init.ones_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer(x).detach()


@program()
def module_made_draws(m, x):
    layer = nn.Linear(4, 2)
    layer(x).sum().backward()
    return layer.weight.grad, layer.weight.detach()


@program(breaks=True)
def module_made_and_given_back(m, x):
    layer = nn.Linear(4, 2)
    return list(layer.parameters()), layer(x)


def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(2))


@program(lazy)
def lazy_modules(m, x):
    return m(x)


@program(lazy)
def lazy_modules_under_autocast(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return m(x).float()


def lazy_convolution() -> nn.Module:
    return nn.Sequential(nn.LazyConv1d(3, 2), nn.LazyLinear(2))


@program(lazy_convolution)
def lazy_convolutions(m, x):
    return m(x[None])


@program(lazy, breaks=True)
def lazy_modules_after_a_draw(m, x):
    noise = torch.rand(3, 4)
    return m(x + noise)


@program()
def tensors_by_class(m, x):
    return (
        torch.Tensor([1.0, 2]),
        torch.Tensor([[1, 2], [3, 4]]),
        torch.Tensor(2, 3).zero_(),
        torch.Tensor(x.shape).zero_(),
    )


@program()
def typed_tensors_by_class(m, x):
    return (
        torch.FloatTensor([1.0, 2]),
        torch.LongTensor([1, 2]),
        torch.BoolTensor([True]),
        torch.DoubleTensor(2).fill_(1),
    )


@program()
def tensors_like_another(m, x):
    return x.new(2, 3).zero_(), x.double().new([1.0, 2]), x.long().new(x.size()).zero_(), x.new()


@program(breaks=True)
def tensor_of_a_tensor(m, x):
    y = torch.Tensor(x)
    y.mul_(2)
    return x * 1
