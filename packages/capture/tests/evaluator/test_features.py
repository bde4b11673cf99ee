"""One line per feature of torch and of the language; those marked ``whole`` must be one graph."""

from __future__ import annotations

import collections
import copy
import functools
import logging
import math
import operator
import os
import random
import time
import typing
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import capture


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * 2


class Descriptor:
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, owner: Any, cls: Any = None) -> Any:
        return self if owner is None else owner.__dict__[self.name] + 1

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__[self.name] = value


class Described:
    d = Descriptor()

    def __init__(self, v: Any) -> None:
        self.d = v


class Cached:
    v: Any = 1

    @functools.cached_property
    def p(self) -> Any:
        return self.v * 2


class Meta(type):
    def __call__(cls, *args: Any) -> Any:
        made = super().__call__(*args)
        made.tag = 1
        return made


class WithMeta(metaclass=Meta):
    def __init__(self, v: Any) -> None:
        self.v = v


class Three:
    def __init__(self) -> None:
        self.n = 0

    def __iter__(self) -> Three:
        return self

    def __next__(self) -> int:
        self.n += 1
        if self.n > 3:
            raise StopIteration
        return self.n


class MyList(list[Any]):
    def total(self) -> Any:
        return sum(self)


class MyDict(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return key


class MyStr(str):
    pass


@functools.lru_cache
def cached(n: int) -> int:
    return n + 1


@functools.singledispatch
def dispatched(v: Any) -> Any:
    return 0


@dispatched.register
def _(v: torch.Tensor) -> Any:
    return v + 1


def inference(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return x * 2


def deep(x: torch.Tensor, n: int) -> torch.Tensor:
    return x if n == 0 else deep(x, n - 1) + 1


def attribute_of_function(x: torch.Tensor) -> torch.Tensor:
    def g(y: torch.Tensor) -> torch.Tensor:
        return y + g.k  # type: ignore[attr-defined]

    g.k = 2  # type: ignore[attr-defined]
    return g(x)


def meta_call(x: torch.Tensor) -> Any:
    made = WithMeta(x)
    return made.v, made.tag


def cached_twice(x: torch.Tensor) -> Any:
    made = Cached()
    made.v = x
    return made.p, made.p is made.p


def own_dict(x: torch.Tensor) -> Any:
    made = MyDict(a=x)
    return made["q"], made.get("z"), len(made)


def warned(x: torch.Tensor) -> torch.Tensor:
    warnings.warn("hi", stacklevel=1)
    return x + 1


def logged(x: torch.Tensor) -> torch.Tensor:
    logging.getLogger("capture.tests").debug("hi %s", 1)
    return x + 1


linear, stack = nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Tanh())
WHOLE: list[Callable[[Any], Any]] = [
    lambda x: torch.einsum("ij,kj->ik", x, x),
    lambda x: (torch.where(x > 0, x, 0.0), x.masked_fill(x < 0, 1.0)),
    lambda x: (x.split(2, 1), x.chunk(2), torch.split(x, [1, 3], 1)),
    lambda x: torch.meshgrid(x[0], x[0], indexing="ij"),
    lambda x: F.pad(x, (1, 1)),
    lambda x: (torch.cdist(x, x), x.norm(), torch.linalg.norm(x), x.norm(dim=1)),
    lambda x: x.detach() + 1,
    lambda x: nn.ReLU()(x),
    lambda x: stack[:1](x),
    lambda x: [n for n, _ in linear.named_parameters()],
    lambda x: x.sum() + sum(p.pow(2).sum() for p in linear.parameters()),
    lambda x: [type(m).__name__ for m in stack.modules()],
    lambda x: x + len(os.environ.get("NO_SUCH_VARIABLE", "ab")),
    logged,
    lambda x: x.view(*x.shape[:-1], 2, -1).transpose(-1, -2).flatten(1),
    lambda x: x + cached(3),
    lambda x: any(d > 3 for d in x.shape) and all(isinstance(d, int) for d in x.shape),
    lambda x: torch.tensor([x.shape[0], 2]),
    lambda x: x * float(x.shape[0]) ** 0.5 / math.sqrt(x.size(-1)),
    lambda x: typing.cast(torch.Tensor, x) + 1,
    lambda x: torch.Tensor.add(getattr(x, "ad" + "d")(1), 1),
    lambda x: operator.itemgetter(0)([x]),
    lambda x: (x[:, 1:].zero_(), x)[1],
    lambda x: torch.empty(3, 4).copy_(x),
    lambda x: x.index_put((torch.tensor([0]),), torch.tensor(1.0)),
    lambda x: x.scatter(1, torch.zeros(3, 1, dtype=torch.long), 1.0),
    lambda x: torch.utils._pytree.tree_map(lambda t: t + 1, {"a": [x, x]}),
    lambda x: torch.complex(x, x).abs(),
    lambda x: functools.reduce(operator.add, [x] * 50),
    lambda x: (7 // 2, -7 // 2, -7 % 3, 7 / 2, 2**-1, 1 << 4, ~5, x),
    lambda x: Described(x).d,
    cached_twice,
    lambda x: [x * i for i in Three()],
    lambda x: MyList([1, 2, 3]).total() * x,
    attribute_of_function,
    lambda x: copy.deepcopy({"a": [1, (2,)], "b": Described(3)})["b"].d + x,
    lambda x: (
        dict.fromkeys(range(2), x),
        dict.fromkeys("ab"),
        collections.OrderedDict.fromkeys(iterable="ba", value=x),
    ),
    lambda x: [(name, x + len(name)) for name in set(["full", "sliding"] * 2)],
    lambda x: [list({name, "c", "d"}) for name in "abefgh"] + [list(frozenset("xyz")), x],
]
BROKEN: list[Callable[[Any], Any]] = [
    lambda x: (x + 1).requires_grad_().requires_grad,
    lambda x: Double.apply(x) + 1,
    lambda x: x[x > 0],
    lambda x: x.nonzero(),
    lambda x: torch.unique(x.round()),
    lambda x: x.data + 1,
    lambda x: nn.Linear(4, 2)(x),
    lambda x: next(iter(linear.state_dict().values())) + 1,
    lambda x: x + int(random.random() * 0) + int(time.time() * 0),
    warned,
    lambda x: x.numpy().sum() * 0 + 1,
    lambda x: f"{x.sum() * 0}",
    lambda x: collections.Counter("abca").most_common(1),
    lambda x: dispatched(x),
    lambda x: torch.tensor([x[0, 0], x[0, 1]]),
    lambda x: x.apply_(lambda v: v + 1),
    inference,
    lambda x: torch.rand(2, generator=torch.Generator().manual_seed(0)),
    lambda x: torch.vmap(lambda t: t.sum())(x),
    lambda x: torch.func.grad(lambda t: t.sin().sum())(x),
    lambda x: x.to_sparse().to_dense(),
    lambda x: deep(x, 300),
    meta_call,
    own_dict,
    lambda x: MyStr("ab") + "c",
    lambda x: (list(set("abcdefgh")), list(set("ab") | set("cd")), x),
    lambda x: (list({0, 8} & {8, 0}), x),
    lambda x: (compile("0", "", "eval"), list({8, 0, 16} - {0}), x),
]


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (type(value), value.dtype, value.requires_grad, value.tolist())
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def _check(fn: Callable[[Any], Any], whole: bool) -> None:
    capture.reset()
    compiled = capture.compile(fn, fullgraph=whole)
    for sign in (1, -1):
        x = torch.arange(12.0).reshape(3, 4) * sign - 3
        torch.manual_seed(0)
        expected = plain(fn(x.clone()))
        torch.manual_seed(0)
        assert plain(compiled(x.clone())) == expected


@pytest.mark.parametrize("fn", WHOLE, ids=lambda fn: f"{fn.__name__}-{fn.__code__.co_firstlineno}")
def test_whole(fn: Callable[[Any], Any]) -> None:
    _check(fn, True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fn", BROKEN, ids=lambda fn: f"{fn.__name__}-{fn.__code__.co_firstlineno}")
def test_broken(fn: Callable[[Any], Any]) -> None:
    _check(fn, False)
