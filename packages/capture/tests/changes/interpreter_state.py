"""State of Python and of its libraries: warnings, contexts, locale, random numbers."""

from __future__ import annotations

import contextlib
import random
import warnings

import torch
import torch.nn.functional as F

from .table import between, changed, family, matrix, vector

program = family("modes")
randomness = family("randomness")


@program
def warnings_filters(call):
    def f(x):
        warnings.warn("careful", UserWarning, stacklevel=1)
        return x + 1

    def once(action):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter(action)
            call(f, vector())
            call.note([str(w.message) for w in seen])

    for action in ("always", "ignore", "error", "always"):
        once(action)


@program
def context_variable(call):
    import contextvars

    scale = contextvars.ContextVar("scale", default=2.0)

    def f(x):
        return x * scale.get()

    call(f, vector())
    token = scale.set(3.0)
    call(f, vector())
    scale.reset(token)
    call(f, vector())


@program
def thread_local(call):
    import threading

    local = threading.local()
    local.k = 2

    def f(x):
        return x * local.k

    call.across(changed(local, "k", 3), f, vector())


@program
def recursion_limit(call):
    import sys

    before = sys.getrecursionlimit()
    call.across(
        between(lambda: sys.setrecursionlimit(before + 10), lambda: sys.setrecursionlimit(before)),
        lambda x: x * (sys.getrecursionlimit() - before + 2), vector(),
    )  # fmt: skip


@program
def locale_and_decimal_context(call):
    import decimal

    def f(x):
        return x * float(decimal.Decimal(1) / decimal.Decimal(3))

    with decimal.localcontext():
        call(f, vector())
        decimal.getcontext().prec = 2
        call(f, vector())
    call(f, vector())


@randomness
def torch_seed(call):
    def f(x):
        return x + torch.rand(3)

    for seed in (0, 1, 0):
        torch.manual_seed(seed)
        call(f, vector())
        call(f, vector())


@randomness
def generator_argument(call):
    def f(x, g):
        return x + torch.rand(3, generator=g)

    one, two = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    for g in (one, two, one):
        call(f, vector(), g)
    one.manual_seed(1)
    call(f, vector(), one)


@randomness
def generator_held(call):
    import types

    space = types.SimpleNamespace(g=torch.Generator().manual_seed(1))

    def f(x):
        return x + torch.rand(3, generator=space.g)

    call.across(changed(space, "g", torch.Generator().manual_seed(9)), f, vector())


@randomness
def python_seed(call):
    def f(x):
        return x * random.random() + random.randint(0, 100)

    state = random.getstate()
    for seed in (0, 1, 0):
        random.seed(seed)
        call(f, vector())
        call(f, vector())
        call.note(random.random())
    random.setstate(state)


@randomness
def own_random_object(call):
    own = random.Random(3)

    def f(x):
        return x * own.random()

    call(f, vector())
    call(f, vector())
    own.seed(3)
    call(f, vector())
    call.note(own.random())


@randomness
def shuffled_list(call):
    items = [1.0, 2.0, 3.0, 4.0]
    call.state = items

    def f(x):
        random.shuffle(items)
        return x * items[0]

    state = random.getstate()
    random.seed(5)
    call(f, vector())
    call(f, vector())
    random.setstate(state)


@randomness
def numpy_seed(call):
    import numpy as np

    def f(x):
        return x * float(np.random.rand())

    for seed in (0, 1, 0):
        np.random.seed(seed)
        call(f, vector())
        call(f, vector())


@randomness
def dropout(call):
    def f(x):
        return F.dropout(x, 0.5)

    for seed in (0, 1, 0):
        torch.manual_seed(seed)
        call(f, matrix())


@randomness
def state_set_within(call):
    def f(x):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
            y = torch.rand(3)
        return x + y + torch.rand(3)

    torch.manual_seed(0)
    call(f, vector())
    with contextlib.suppress(ValueError):
        call(f, vector())
    call.note(torch.rand(2))
