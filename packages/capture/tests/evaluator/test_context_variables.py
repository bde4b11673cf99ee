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


def copies_before(x):
    context = contextvars.copy_context()
    W.set(20)
    y = context.run(inner, x), W.get(), context[W], context.get(V), V in context, context.get(V, 1)
    return y, context.run(W.get)


def runs_in_an_empty_one(x):
    V.set(3)
    context = contextvars.Context()
    first = context.run(lambda: (V.get(None), W.get(), V.set(x), V.get()))
    try:
        missing = context[W]
    except KeyError as error:
        missing = error.args[0] is W
    return x + first[3], first[:2], V in context, V.get(), missing


def raises_in_another(x):
    def fails():
        W.set(50)
        raise ValueError(W.get())

    context = contextvars.copy_context()
    try:
        context.run(fails)
    except ValueError as error:
        return x + error.args[0], W.get(), context[W]


def runs_one_in_another(x):
    first, second = contextvars.copy_context(), contextvars.copy_context()
    W.set(1)

    def around(x):
        W.set(100)
        return second.run(inner, x), W.get(), V.get(4)

    y = first.run(around, x)
    return y, first[W], second[W], W.get()


def puts_back_by_the_first(x):
    first, second = W.set(5), W.set(6)
    W.reset(first)
    return x + W.get(), second.old_value


def breaks_in_another(x):
    def within(x):
        W.set(30)
        seen = stop()
        return x + W.get(), seen

    context = contextvars.copy_context()
    return context.run(within, x), context[W], W.get()


def hands_out(x):
    context = contextvars.copy_context()
    context.run(W.set, 8)
    return x + W.get(), context[W], len(context) > 0, list(context) != []


def hands_out_a_token(x):
    context = contextvars.copy_context()
    token = context.run(W.set, 8)
    return x + W.get(), token.old_value, str(token)[:6]


def uses_a_token_of_another(x):
    token = contextvars.copy_context().run(W.set, 8)
    try:
        W.reset(token)
    except ValueError as error:
        return x, "different Context" in str(error)


def scopes_around_a_break(x):
    with scoped(4):
        y = x + W.get()
        seen = stop()
        with scoped(5):
            y = y * W.get()
    return y + W.get(), seen, stop()


def breaks_then_puts_back(x):
    first = W.set(1)
    seen = stop()
    W.reset(first)
    y = x + W.get()
    W.set(9)
    return y, seen, W.get()


WHOLE = [
    reads, misses, sets_and_resets, sets, sets_twice, asks_a_token, sets_tensors, takes_back_one_of_two, scopes,
    runs_in_another, copies_before, runs_in_an_empty_one, raises_in_another, runs_one_in_another,
]  # fmt: skip
BROKEN = [
    breaks_between, puts_back_twice, differentiates, puts_back_by_the_first, breaks_in_another, hands_out, hands_out_a_token,
    uses_a_token_of_another, scopes_around_a_break, breaks_then_puts_back,
]  # fmt: skip


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


def test_a_token_from_before_puts_back() -> None:
    def run(x: torch.Tensor, token: contextvars.Token[Any]) -> tuple[torch.Tensor, Any]:
        y = x + W.get()
        W.reset(token)
        return y * W.get(), token.var is W

    compiled = capture.compile(run, fullgraph=True)

    def calls(fn: Callable[..., Any]) -> list[str]:
        told = []
        for value in (4, 4, 5):
            told += [repr(fn(torch.ones(2), W.set(value))), repr(W.get())]
            W.set(value + 1)
        return told

    expected = contextvars.Context().run(calls, run)
    assert contextvars.Context().run(calls, compiled) == expected
    assert contextvars.Context().run(calls, compiled) == expected

    def fails(fn: Callable[..., Any]) -> list[str]:
        told, used = [], W.set(1)
        W.reset(used)
        for token in (used, V.set(1), contextvars.copy_context().run(W.set, 3)):
            try:
                fn(torch.ones(2), token)
            except (RuntimeError, ValueError) as error:
                told.append(type(error).__name__)
        return told

    again = capture.compile(run)
    assert (
        contextvars.Context().run(fails, again)
        == contextvars.Context().run(fails, run)
        == ["RuntimeError", "ValueError", "ValueError"]
    )
