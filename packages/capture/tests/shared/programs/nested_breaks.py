# ruff: noqa
"""Graph breaks inside inlined calls, handlers and blocks: each frame on the way goes on where it was."""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback

import torch

from .registry import program


def _broken(x):
    y = x * 2
    s = float((y * 0).sum())
    return y + s


def _two_deep(x):
    return _broken(x + 1) - 1


@program
def break_two_calls_deep(x):
    y = x + 3
    return _two_deep(y) * y


@program
def break_twice_in_the_same_function(x):
    return _two_deep(_two_deep(x)) + x


@program
def break_in_arguments_of_a_call(x):
    return torch.stack([_broken(x), _two_deep(x), x])


@program
def break_with_locals_of_each_frame(x):
    a, b = x + 1, [x]

    def middle(c, *rest, k=2, **named):
        d = c * k
        e = _broken(d)
        return e + d + rest[0] + named["n"]

    r = middle(a, b[0], n=5)
    b.append(r)
    return b, a


@program
def break_in_closure_that_writes(x):
    count = 0

    def step(y):
        nonlocal count
        count += 1
        y = _broken(y) * count
        count += 10
        return y

    y = step(step(x))
    return y, count


@program
def break_in_closure_over_its_argument(x):
    def outer(y):
        def inner():
            return _broken(y) + y

        z = inner()
        y = y + 1
        return z + inner()

    return outer(x)


class _Base:
    def run(self, x):
        self.seen = _broken(x)
        return self.seen + 1


class _Derived(_Base):
    def __init__(self, x):
        self.first = _broken(x + 1)
        self.second = self.first + 1

    def run(self, x):
        y = super().run(x + 1)
        return y * 2 + self.second

    def __call__(self, x):
        return self.run(x)


@program
def break_in_constructor_and_super(x):
    made = _Derived(x)
    return made.run(x), made(x), made.first


class _ReturnsFromInit:
    def __init__(self, x):
        _broken(x)
        return 3


@program
def break_in_init_that_returns_something(x):
    return _ReturnsFromInit(x)


class _Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 3.0

    def forward(self, x):
        return _broken(x * self.scale)


class _Hooked(_Block):
    def __init__(self):
        super().__init__()
        self.inner = _Block()
        self.inner.register_forward_hook(lambda m, a, o: _broken(o) + 1)
        self.inner.register_forward_pre_hook(lambda m, a: (_broken(a[0]),))

    def forward(self, x):
        return self.inner(x + 1) * 2


_block, _hooked = _Block(), _Hooked()


@program
def break_in_forward(x):
    return _block(x) + _block(x + 1)


@program
def break_in_hooks(x):
    return _hooked(x)


@program
def break_in_partial(x):
    return functools.partial(_broken)(x) + functools.partial(lambda a, b: _broken(a) + b, b=2)(x)


def _decorated(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        before = args[0] + 1
        result = fn(*args, **kwargs)
        return result + before

    return wrapper


@_decorated
@_decorated
def _wrapped(x):
    return _broken(x)


@program
def break_in_decorated(x):
    return _wrapped(x) * 2


@program
def break_in_call_under_blocks(x):
    log = []

    def managed(y):
        with torch.no_grad():
            try:
                y = _broken(y)
                log.append(torch.is_grad_enabled())
            finally:
                log.append("left")
        return y

    with torch.enable_grad():
        y = managed(x)
        log.append(torch.is_grad_enabled())
    return y, log


class _Noisy:
    def __init__(self, log, swallows):
        self.log, self.swallows = log, swallows

    def __enter__(self):
        self.log.append(float(torch.zeros(1).sum()))
        return self

    def __exit__(self, kind, value, tb):
        self.log.append((kind, float(torch.ones(1).sum()), tb is None))
        return self.swallows


@program
def break_in_enter_and_exit(x):
    log = []
    with _Noisy(log, True) as manager:
        y = x + 1
        with _Noisy(log, False):
            y = y * 2
            raise KeyError("out")
    return y, log, manager.swallows


@program
def break_in_call_that_raises_after(x):
    def fails(y):
        y = _broken(y)
        raise ValueError("after")

    log = []
    try:
        fails(x)
    except ValueError as e:
        log.append(str(e))
        x = _broken(x)
    return x, log


@program
def break_in_handler_keeps_what_is_handled(x):
    log = []
    try:
        raise KeyError("first")
    except KeyError:
        y = x * 2
        float(y.sum())
        log.append(repr(sys.exc_info()[1]))
        try:
            raise IndexError("second")
        except IndexError as e:
            y = y + 1
            float(y.sum())
            log.append((repr(e.__context__), repr(sys.exc_info()[1])))
        log.append(repr(sys.exc_info()[1]))
        y = y * 3
    log.append(sys.exc_info()[1])
    return y, log


@program
def break_in_handler_then_bare_raise(x):
    try:
        try:
            raise KeyError("again")
        except KeyError:
            y = _broken(x)
            raise
    except KeyError as e:
        return x + 1, len(traceback.extract_tb(e.__traceback__))


@program
def break_in_handler_then_raise_from(x):
    try:
        try:
            raise KeyError("cause")
        except KeyError as e:
            y = _broken(x)
            raise ValueError("effect") from e
    except ValueError as e:
        return x + 1, repr(e.__cause__), repr(e.__context__), e.__suppress_context__


@program
def break_in_finally_of_an_exception(x):
    log = []
    try:
        try:
            raise KeyError("through")
        finally:
            log.append(repr(sys.exc_info()[1]))
            x = _broken(x)
            log.append(repr(sys.exc_info()[1]))
    except KeyError:
        log.append("caught")
    return x, log, sys.exc_info()[1]


@program
def break_in_finally_that_returns(x):
    def swallow(y):
        try:
            raise KeyError("lost")
        finally:
            return _broken(y)

    return swallow(x), sys.exc_info()[1]


@program
def break_in_call_from_handler(x):
    log = []

    def handle(y):
        log.append(repr(sys.exc_info()[1]))
        try:
            raise
        except KeyError as e:
            log.append(e.args)
        return _broken(y)

    for i in range(3):
        try:
            raise KeyError(i)
        except KeyError:
            if i == 1:
                continue
            x = handle(x)
    return x, log, sys.exc_info()[1]


def _thrower(x, depth):
    if depth == 0:
        raise KeyError(depth)
    return _thrower(x + 1, depth - 1)


@program
def break_in_handler_of_a_deep_exception(x):
    try:
        _thrower(x, 3)
    except KeyError as e:
        y = _broken(x)
        lines = [f.name for f in traceback.extract_tb(e.__traceback__)]
    return y, lines


@program
def break_in_calls_of_comprehensions(x):
    return (
        [_broken(x + i) for i in range(3)],
        {i: _two_deep(x) for i in range(2)},
        sum(_broken(x + i) for i in range(2)),
    )


@program
def break_in_calls_of_loops(x):
    for i in range(4):
        if i == 2:
            continue
        x = _two_deep(x) + i
    else:
        x = _broken(x)
    return x


@program
def break_in_recursion(x):
    def down(y, n):
        if n == 0:
            return _broken(y)
        return down(y + n, n - 1) * 2

    return down(x, 4)


@contextlib.contextmanager
def _managed(log):
    log.append(float(torch.zeros(1).sum()))
    try:
        yield 3
    finally:
        log.append(float(torch.ones(1).sum()))


@program
def break_in_generator_based_manager(x):
    log = []
    with _managed(log) as k:
        y = x * k
        y = _broken(y)
    return y, log


@program
def break_in_generator_based_manager_that_raises(x):
    log = []
    try:
        with _managed(log) as k:
            y = _broken(x * k)
            raise KeyError("in")
    except KeyError as e:
        log.append(repr(e))
    return y, log


@program
def break_with_unbound_local_of_the_callee(x):
    def maybe(y, n):
        if n:
            z = y + 1
        y = _broken(y)
        if n:
            return y + z
        return y

    return maybe(x, 0) + maybe(x, 1)


@program
def break_where_a_comprehension_hides_a_cell(x):
    def callee(y, k):
        def inner():
            return k

        ys = [_broken(y) for k in range(2)]
        y = _broken(sum([ys[k] for k in range(2)], y))
        return y + inner()

    return callee(x, 5)


@torch.compiler.disable
def _outside(value):
    return value


@program
def argument_in_a_cell_that_changed_before_a_break(a):
    kept = [a]

    def inner():
        return kept, a

    a = None
    found = _outside(kept[0])
    return inner(), found


@program
def argument_in_a_cell_that_is_empty_at_a_break(a):
    def inner():
        return a

    del a
    found = _outside(torch.ones(2))
    try:
        return inner(), found
    except NameError as error:
        return str(error), found
