"""Functions that a program is handed, by every road."""

from __future__ import annotations

import functools
import operator
import sys
import types
import typing

import torch
import torch.nn.functional as F
from torch import nn

from .table import changed, family, vector

program = family("functions")

ACT = F.relu
TABLE = {"act": F.relu}


def twice(x):
    return x * 2


def thrice(x):
    return x * 3


@program
def argument(call):
    def f(x, act):
        return act(x) + 1

    for act in (F.relu, F.silu, torch.relu, F.relu, torch.sigmoid, twice, F.relu):
        call(f, vector(), act)


@program
def keyword_argument(call):
    def f(x, *, act=F.relu):
        return act(x) + 1

    call(f, vector())
    for act in (F.silu, torch.tanh, F.relu):
        call(f, vector(), act=act)


@program
def builtin_argument(call):
    def f(x, op):
        return op(x, 2)

    for op in (operator.add, operator.mul, torch.pow, operator.add, torch.sub):
        call(f, vector(), op)


@program
def attribute_of_namespace(call):
    space = types.SimpleNamespace(act=F.relu)

    def f(x):
        return space.act(x) + 1

    call.across([changed(space, "act", F.silu), changed(space, "act", thrice)], f, vector())


@program
def attribute_of_module(call):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = F.relu

        def forward(self, x):
            return self.act(x) + 1

    block = Block()
    call.across([changed(block, "act", F.silu), changed(block, "act", torch.sigmoid)], block, vector())


@program
def attribute_of_nested_module(call):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = F.relu

        def forward(self, x):
            return self.act(x) + 1

    model = nn.Sequential(Block(), Block())
    call.across([changed(model[1], "act", F.gelu), changed(model[0], "act", F.elu)], model, vector())


@program
def attribute_of_class(call):
    class Config:
        act = staticmethod(F.relu)

    def f(x):
        return Config.act(x) + 1

    call.across([changed(Config, "act", staticmethod(F.silu)), changed(Config, "act", thrice)], f, vector())


@program
def global_function(call):
    def f(x):
        return ACT(x) + 1

    call.across([changed(globals(), "ACT", F.silu), changed(globals(), "ACT", twice)], f, vector())


@program
def item_of_global_dict(call):
    def f(x):
        return TABLE["act"](x) + 1

    call.across([changed(TABLE, "act", F.silu), changed(TABLE, "act", twice)], f, vector())


@program
def item_of_argument_dict(call):
    table = {"act": F.relu}

    def f(x, table):
        return table["act"](x) + 1

    call.across([changed(table, "act", F.silu), changed(table, "act", torch.neg)], f, vector(), table)


@program
def item_of_list(call):
    steps = [F.relu, torch.exp]

    def f(x):
        for step in steps:
            x = step(x)
        return x

    call(f, vector())
    steps[0] = F.silu
    call(f, vector())
    steps.reverse()
    call(f, vector())
    steps[:] = [F.relu, torch.exp]
    call(f, vector())


@program
def closure_cell(call):
    act = F.relu

    def f(x):
        return act(x) + 1

    call(f, vector())
    act = F.silu
    call(f, vector())
    act = F.relu
    call(f, vector())


@program
def partial_argument(call):
    def f(x, act):
        return act(x)

    for act in (
        functools.partial(F.leaky_relu, negative_slope=0.5),
        functools.partial(F.leaky_relu, negative_slope=0.25),
        functools.partial(F.elu, alpha=0.5),
        functools.partial(F.leaky_relu, negative_slope=0.5),
        functools.partial(torch.add, torch.ones(3)),
    ):
        call(f, vector(), act)


@program
def partial_held(call):
    space = types.SimpleNamespace(act=functools.partial(F.relu))

    def f(x):
        return space.act(x) + 1

    call.across([changed(space, "act", functools.partial(F.silu))], f, vector())


@program
def partial_keywords_mutated(call):
    act = functools.partial(F.leaky_relu, negative_slope=0.5)

    def f(x):
        return act(x)

    call.across(changed(act.keywords, "negative_slope", 0.25), f, vector())


@program
def partial_set_state(call):
    act = functools.partial(F.relu)

    def f(x):
        return act(x) + 1

    call(f, vector())
    act.__setstate__((F.silu, (), {}, {}))
    call(f, vector())
    act.__setstate__((F.relu, (), {}, {}))
    call(f, vector())


@program
def encoder_layer_activation(call):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    x = torch.arange(8.0).reshape(1, 2, 4)
    call.across([changed(layer, "activation", F.gelu), changed(layer, "activation", torch.tanh)], layer, x)


@program
def method_of_torch_class(call):
    def f(x, method):
        return method(x) + 1

    for method in (torch.Tensor.relu, torch.Tensor.sigmoid, torch.Tensor.relu, torch.Tensor.neg):
        call(f, vector(), method)


@program
def bound_method(call):
    class Scale:
        def __init__(self, k):
            self.k = k

        def up(self, x):
            return x * self.k

        def down(self, x):
            return x / self.k

    two, three = Scale(2), Scale(3)

    def f(x, act):
        return act(x)

    for act in (two.up, three.up, two.down, two.up):
        call(f, vector(), act)
    two.k = 7
    call(f, vector(), two.up)


@program
def lambda_made_anew(call):
    def f(x, act):
        return act(x)

    for k in (2, 3, 2):
        call(f, vector(), lambda x, k=k: x * k)
        call(f, vector(), lambda x: x * k)


@program
def name_given_of_function(call):
    def f(x, act):
        return x * len(act.__name__)

    for act in (F.relu, F.leaky_relu, torch.exp, twice):
        call(f, vector(), act)


@program
def identity_asked(call):
    def f(x, act):
        return x * (2 if act is F.relu else 3)

    for act in (F.relu, F.silu, F.relu, torch.relu):
        call(f, vector(), act)


@program
def overload_argument(call):
    def f(x, op):
        return op(x)

    for op in (torch.ops.aten.relu.default, torch.ops.aten.neg.default, torch.ops.aten.relu.default):
        call(f, vector(), op)


@program
def key_of_dict(call):
    weights = {F.relu: 2.0, F.silu: 3.0}

    def f(x, act):
        return act(x) * weights[act]

    for act in (F.relu, F.silu, F.relu, F.gelu):
        call(f, vector(), act)
    weights[F.relu] = 5.0
    call(f, vector(), F.relu)


MEANT = int


def annotated(a: MEANT, b: list[int] | None = None):
    return a


@program
def annotations_that_are_texts(call):
    def f(x):
        return x * (2 if typing.get_type_hints(annotated)["a"] is int else 3)

    for meant in (float, int, str):
        call.across(changed(sys.modules[__name__], "MEANT", meant), f, vector())
