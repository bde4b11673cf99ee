# ruff: noqa
"""Loops, iterators and generators."""

from __future__ import annotations

import functools
import itertools
import math
import operator

import torch

from .registry import program


@program
def iterators(x):
    out = []
    for i, (a, b) in enumerate(zip([x, x + 1], (1, 2), strict=True), start=5):
        out.append(a * b + i)
    out.extend(map(lambda t, k: t - k, [x, x], [1, 2]))
    out.extend(filter(lambda k: k > 1, [1, 2, 3]))
    it = iter([1, 2, 3])
    out.append(next(it))
    out.extend(it)
    out.append(next(it, "end"))
    for k in reversed([1, 2]):
        out.append(k)
    out.extend(itertools.chain([1], (2,), [x]))
    out.extend(itertools.islice(itertools.count(3), 2))
    out.extend(itertools.product([1, 2], "ab"))
    out.append(functools.reduce(operator.add, [x, x, x]))
    return out


@program
def loops(x):
    n = 0
    while True:
        n += 1
        if n == 2:
            continue
        if n > 4:
            break
        x = x + n
    else:
        x = x * 100
    for i in range(3):
        if i == 5:
            break
    else:
        x = x - 1
    return x, n, i


@program
def generators(x):
    def count(n):
        for i in range(n):
            got = yield x + i
            if got is not None:
                yield got
        return "done"

    def delegate():
        result = yield from count(2)
        yield result

    g = count(3)
    first = next(g)
    sent = g.send(x * 5)
    return list(delegate()), first, sent, list(g), sum(1 for _ in count(3))


@program
def unpacking(x):
    def f(*args, **kwargs):
        return args, sorted(kwargs)

    return f(*[1, 2], x, *(3,), a=1, b=2), max(3, 1, 2), min([4, 2]), [*range(2), *"ab"]


@program
def tensor_iteration(x):
    total = 0
    for row in x:
        total = total + row.sum()
    a, b, *_ = x.unbind(0) if x.shape[0] > 1 else (x, x)
    return total, a, b, len(x)


@program
def builtin_calls(x):
    return (
        any([0, 1]), all([]), sum([1, 2, 3]), abs(-3), round(2.567, 1), divmod(7, 2), pow(2, 3), bool([]), int("7"),
        float("1.5"), str(12), repr("a"), ord("a"), chr(98), list("abc"), sorted([3, 1, 2], reverse=True),
        sorted(["bb", "a"], key=len), isinstance(x, torch.Tensor), isinstance(3, (int, str)), callable(len),
        type(x) is torch.Tensor, hasattr(x, "shape"), hasattr(x, "nope"), getattr(x, "nope", 5), x.abs().sum(),
        math.sqrt(4), math.pi, hex(255), list(map(str, range(3))), tuple(reversed((1, 2))), enumerate,
    )  # fmt: skip


@program
def types_of_iterators(x):
    made = (
        iter(()),
        iter([]),
        iter(torch.Size([1])),
        reversed([]),
        reversed(()),
        reversed("ab"),
        reversed({}),
        reversed({}.items()),
        itertools.product([1]),
        itertools.permutations([1]),
    )
    return [type(each).__name__ for each in made], x + 1
