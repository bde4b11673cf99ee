# ruff: noqa
"""Generators that are suspended while the graph breaks, and lists that grow over breaks."""

from __future__ import annotations

import contextlib
import time

import torch

from .registry import program


@contextlib.contextmanager
def managed(log, value=3):
    log.append("in")
    try:
        yield value
    except ValueError as error:
        log.append(str(error))
    finally:
        log.append("out")


@contextlib.contextmanager
def nested(log):
    with torch.no_grad():
        with managed(log, 4) as k:
            for i in range(1):
                yield k + i
            log.append("after")


@program
def break_in_managed(x):
    log = []
    with managed(log) as k:
        y = x + k
        time.perf_counter_ns()
        y = y * 2
    return y + 1, log


@program
def break_in_nested_managers(x):
    log = []
    with nested(log) as k, managed(log) as n:
        y = x + k * n
        time.perf_counter_ns()
        g = torch.is_grad_enabled()
        y = y * 2
    return y + 1, log, g, torch.is_grad_enabled()


@program
def break_in_managed_that_swallows(x):
    log = []
    with managed(log) as k:
        y = x + k
        time.perf_counter_ns()
        raise ValueError("swallowed")
    return y + 1, log


@program
def break_in_managed_that_lets_out(x):
    log = []
    try:
        with managed(log) as k:
            y = x + k
            time.perf_counter_ns()
            raise KeyError("out")
    except KeyError as error:
        return y + 1, log, error.args


@program
def break_between_yields(x):
    total = 0

    def counting(n):
        nonlocal total
        for i in range(n):
            total += 1
            got = yield x + i
            if got is not None:
                total += got

    gen = counting(3)
    first = next(gen)
    time.perf_counter_ns()
    second = gen.send(10)
    rest = list(gen)
    return first, second, rest, total


@program
def break_while_delegating(x):
    log = []

    def inner():
        try:
            got = yield 1
            log.append(got)
            yield 2
        finally:
            log.append("inner ends")
        return 7

    def outer(a, *args, **kwargs):
        found = yield from inner()
        log.append((found, a, args, kwargs))
        yield x * found

    gen = outer(1, 2, b=3)
    first = next(gen)
    time.perf_counter_ns()
    return first, gen.send("sent"), next(gen), list(gen), log, gen.gi_frame


@program
def break_then_throw_and_close(x):
    log = []

    def body(name):
        try:
            while True:
                try:
                    yield name, x
                except KeyError as error:
                    log.append(repr(error))
        finally:
            log.append(name)

    a, b = body("a"), body("b")
    next(a), next(b)
    time.perf_counter_ns()
    b.throw(KeyError("k"))
    a.close()
    b.close()
    return log, a.__name__, b.gi_running, next(b, None)


@program
def break_while_handling_in_generator(x):
    def body():
        try:
            raise ValueError("v")
        except ValueError as error:
            yield x + 1
            yield str(error)

    gen = body()
    first = next(gen)
    time.perf_counter_ns()
    return first, list(gen)


class Walker:
    def __init__(self, items):
        self.items = items

    def walk(self):
        for each in self.items:
            yield from self.one(each)

    def one(self, each):
        yield self, each


class Louder(Walker):
    def one(self, each):
        for me, item in super().one(each):
            yield me, item * 2


@program
def break_in_methods_that_yield(x):
    walker = Louder([x, x + 1])
    gen = walker.walk()
    me, first = next(gen)
    time.perf_counter_ns()
    return me is walker, first, [item for _, item in gen]


@program
def break_in_loop_over_generator(x):
    def counting():
        try:
            for i in range(4):
                yield i
        finally:
            out.append("end")

    out = []
    for i in counting():
        out.append(x + i)
        time.perf_counter_ns()
        if i == 2:
            break
    return out


@program
def break_in_growing_loop(x):
    out = []
    for i in range(6):
        x = x + 1
        time.perf_counter_ns()
        out.append(x * i)
    return out


@program
def break_in_growing_loop_then_looked_at(x):
    out, other = [], []
    same = out
    for i in range(6):
        time.perf_counter_ns()
        out.append(x * i)
        other += [i, i + 1]
        other.extend(j for j in range(i))
        if i == 4:
            same.append(len(out))
            out.insert(0, other[-1])
    return len(out), out[0], out[-1], same is out, other


@program
def break_in_loop_that_extends_by_itself(x):
    out = [x]
    for i in range(3):
        time.perf_counter_ns()
        out.append(i)
        out.extend(out)
    return out


def _append(to, x):
    to.append(x + 1)


@program
def append_to_what_is_given(x):
    seen = []
    for i in range(3):
        _append(seen, x * i)
    return seen
