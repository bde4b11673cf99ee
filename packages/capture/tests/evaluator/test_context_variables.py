"""Context variables in captured frames: what the context has is guarded; what the frame sets is set, in order, unless it took that back."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import capture

V: contextvars.ContextVar[Any] = contextvars.ContextVar("V")
W: contextvars.ContextVar[Any] = contextvars.ContextVar("W", default=3)


def reads(x):
    return x + W.get() + V.get(7)


def misses(x):
    try:
        return x + V.get()
    except LookupError as error:
        return x, type(error), error.args == (V,)


def sets_and_resets(x):
    token = W.set(5)
    y = x + W.get()
    W.reset(token)
    return y + W.get()


def sets(x):
    W.set(W.get() + 1)
    return x * W.get()


def sets_twice(x):
    first, second = W.set(1), W.set(2)
    return x, first.old_value, second.old_value, second.var is W


def asks_a_token(x):
    token = V.set(9)
    try:
        old = token.old_value
        return x + V.get(), "nothing" if old is contextvars.Token.MISSING else old
    finally:
        V.reset(token)


def sets_tensors(x):
    old = V.get(torch.zeros(2))
    V.set(x)
    return old + 1, V.get() is x


def takes_back_one_of_two(x):
    V.set(x + 1)
    token = V.set(x + 2)
    V.reset(token)
    return V.get() + x


@contextlib.contextmanager
def scoped(value: Any) -> Iterator[Any]:
    token = W.set(value)
    try:
        yield value
    finally:
        W.reset(token)


def scopes(x):
    with scoped(4):
        y = x + W.get()
    try:
        with scoped(5):
            raise KeyError(W.get())
    except KeyError as error:
        return y * error.args[0] + W.get()


@capture.disable
def stop() -> Any:
    return W.get(), V.get(None)


def breaks_between(x):
    first, second = W.set(1), V.set(x)
    seen = stop()
    y = V.get() + W.get()
    V.reset(second)
    W.reset(first)
    return y, seen, stop()


def puts_back_twice(x):
    token = W.set(2)
    W.reset(token)
    try:
        W.reset(token)
    except RuntimeError as error:
        return x, "used" in str(error)


def inner(x):
    W.set(W.get() + 10)
    return x + W.get()


def runs_in_another(x):
    W.set(1)
    context = contextvars.copy_context()
    W.set(2)
    y = context.run(inner, context.run(inner, x))
    return y + W.get(), context[W]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * W.get()

    @staticmethod
    def backward(ctx, g):
        return g * W.get()


def differentiates(x):
    x = x.clone().requires_grad_()
    y = Scaled.apply(x)
    W.set(W.get() + 1)
    y.sum().backward()
    return x.grad


WHOLE = [
    reads, misses, sets_and_resets, sets, sets_twice, asks_a_token, sets_tensors, takes_back_one_of_two, scopes,
]  # fmt: skip
BROKEN = [breaks_between, puts_back_twice, runs_in_another, differentiates]


def outcomes(fn: Callable[..., Any]) -> list[str]:
    """What calls give and leave in a context of their own, which is changed between them."""
    told = []

    def calls() -> None:
        for change in (None, W, V, None, V):
            if change is not None:
                change.set(torch.full((2,), len(told)) if change is V else len(told))
            told.append(repr((fn(torch.ones(2)), W.get(), V.get(None))))

    contextvars.Context().run(calls)
    return told


@pytest.mark.parametrize("fn", WHOLE, ids=lambda fn: fn.__name__)
def test_whole(fn: Callable[..., Any]) -> None:
    assert outcomes(capture.compile(fn, fullgraph=True)) == outcomes(fn)


@pytest.mark.parametrize("fn", BROKEN, ids=lambda fn: fn.__name__)
def test_with_breaks(fn: Callable[..., Any]) -> None:
    assert outcomes(capture.compile(fn)) == outcomes(fn)
