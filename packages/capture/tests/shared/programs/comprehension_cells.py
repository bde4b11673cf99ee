# ruff: noqa
"""Comprehensions whose variables are captured by closures, in functions that capture variables of the same names."""

from __future__ import annotations

import torch

from .registry import program


@program
def cell_put_aside(x):
    k = 3
    before = lambda: k
    within = [lambda: k for k in range(3)]
    return x + k + before() + within[0]()


@program
def parameter_put_aside(k):
    within = [lambda: k + 1 for k in (1, 2)]
    return k * within[1]()


@program
def cell_put_aside_after_break(x):
    k = 3
    before = lambda: k
    compile("0", "", "eval")
    within = [lambda: k for k in range(3)]
    return x + k + before() + within[0]()


@program
def cell_put_aside_around_break(x):
    k = 3
    before = lambda: k
    within = [(lambda: k, compile("0", "", "eval"), x * k) for k in range(3)]
    return x + k + before() + within[0][0]() + within[2][2]


@program
def parameter_put_aside_around_break(k):
    within = [(lambda: j + k.shape[0], compile("0", "", "eval")) for k in (k, k[1:]) for j in range(2)]
    return k * within[0][0]()


@program
def cell_put_aside_and_an_error(x):
    k = 5
    before = lambda: k
    try:
        [(lambda: k, 1 // k) for k in (1, 0)]
    except ZeroDivisionError as error:
        return x + k + before(), str(error)


@program
def cell_put_aside_and_changed(x):
    k = 1

    def change():
        nonlocal k
        k += 10

    within = [(change(), lambda: k) for k in (7, 8)]
    return x * k, [f() for _, f in within]


@program
def cells_put_aside_twice(x):
    k = 1
    rows = [sum([(lambda: k + j)() for k in range(j)]) for j in range(4)]
    return x + k, rows, (lambda: k)()


@program
def cell_put_aside_in_a_call(x):
    def inner(k):
        within = [lambda: k for k in range(4)]
        return k * within[0]()

    return inner(x) + inner(x + 1)


@program
def captured_within_and_without_break(x):
    k = 10

    def inner(t):
        within = [lambda: k for k in range(3)]
        return t + k + within[0]()

    return inner(x)


@program
def plain_within_one_and_cell_within_another_breaks(x):
    first = [(lambda k=k: x + k, print(end="")) for k in range(3)]
    second = [(lambda: k) for k in range(3)]
    return [f() for f, _ in first], [f() for f in second]
