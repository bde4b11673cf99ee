# ruff: noqa
"""Context managers of every kind, and what exceptions, breaks and returns do in them."""

from __future__ import annotations

import contextlib
import io
import threading

import torch
from torch.overrides import TorchFunctionMode

from .registry import program


class Abstract(contextlib.AbstractContextManager):
    def __exit__(self, *exc):
        return None


class Replacing:
    def __enter__(self):
        return self

    def __exit__(self, cls, value, tb):
        raise KeyError("exit")


class Seen:
    def __init__(self, seen):
        self.seen = seen

    def __enter__(self):
        return self

    def __exit__(self, cls, value, tb):
        self.seen.append((cls, str(value), tb is None))
        return True


class Mark(contextlib.ContextDecorator):
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, *exc):
        self.log.append(exc[0])
        return False


class Thing:
    def __init__(self):
        self.open = True

    def close(self):
        self.open = False


@contextlib.contextmanager
def noted(log, name, swallow=()):
    log.append(f"enter {name}")
    try:
        yield name
    except swallow as e:
        log.append(f"swallow {type(e).__name__}")
    finally:
        log.append(f"exit {name}")


@program
def generator_manager(x):
    log = []
    with noted(log, "a") as a, noted(log, "b") as b:
        y = x + len(a + b)
    return y, log


@program
def generator_manager_swallows(x):
    log = []
    with noted(log, "a", (ValueError,)):
        x = x + 1
        raise ValueError("v")
    with noted(log, "b"):
        x = x * 2
    return x, log


@program
def generator_manager_passes_on(x):
    log = []
    try:
        with noted(log, "a", (ValueError,)):
            raise KeyError("k")
    except KeyError as e:
        log.append(e.args)
    return x, log


@program
def generator_manager_loop(x):
    log = []
    for i in range(5):
        with noted(log, i):
            if i == 1:
                continue
            if i == 3:
                break
            x = x + i
    return x, log


@program
def generator_manager_returns(x):
    log = []

    def f(n):
        with noted(log, n):
            if n:
                return x * n
        return x

    return f(0), f(2), log


@program
def generator_manager_decorates(x):
    log = []

    @noted(log, "call")
    def f(a):
        return a * 2

    return f(x), f(x + 1), log


@program
def generator_manager_replaces(x):
    @contextlib.contextmanager
    def translated():
        try:
            yield
        except ValueError as e:
            raise KeyError("new") from e

    try:
        with translated():
            raise ValueError("old")
    except KeyError as e:
        return x, e.args, type(e.__cause__).__name__, e.__cause__.args


@program
def generator_manager_misuse(x):
    @contextlib.contextmanager
    def twice():
        yield 1
        yield 2

    @contextlib.contextmanager
    def never():
        if False:
            yield

    out = []
    for m in (twice, never):
        try:
            with m():
                pass
        except RuntimeError as e:
            out.append(str(e))
    return x, out


@program
def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        for name in "abc":
            stack.enter_context(noted(log, name))
        stack.callback(log.append, "callback")
        stack.push(lambda *exc: log.append(exc[0]))
        x = x + 1
    return x, log


@program
def exit_stack_swallows(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(noted(log, "outer", (KeyError,)))
        stack.enter_context(noted(log, "inner"))
        raise KeyError(1)
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, "moved")
        kept = stack.pop_all()
    log.append("before")
    kept.close()
    return x, log


@program
def null_and_suppress(x):
    out = []
    with contextlib.nullcontext(x) as y:
        out.append(y + 1)
    with contextlib.nullcontext():
        out.append(y)
    with contextlib.suppress(KeyError, IndexError):
        out.append([][1])
    with contextlib.suppress(ZeroDivisionError):
        out.append(1 // 0)
    try:
        with contextlib.suppress(KeyError):
            raise ValueError("through")
    except ValueError as e:
        out.append(str(e))
    return out


@program
def closing_manager(x):
    thing = Thing()
    with contextlib.closing(thing) as t:
        was = t.open
    return x + 1, was, thing.open


@program
def manager_as_decorator(x):
    log = []

    @Mark(log)
    def f(a, *, k=1):
        return a * k

    return f(x), f(x, k=3), f.__name__, log


@program
def locks(x):
    lock, again = threading.Lock(), threading.RLock()
    with lock:
        x = x + 1
        held = lock.locked()
    with again, again:
        x = x * 2
    return x, held, lock.locked(), lock.acquire(), lock.locked()


_LOCK = threading.Lock()


@program
def break_at_lock_from_outside(x):
    with _LOCK:
        y = x * 2
    return y, _LOCK.locked()


@program
def manager_exit_arguments(x):
    seen = []
    with Seen(seen):
        raise ValueError("one")
    with Seen(seen):
        x = x + 1
    with Seen(seen) as m:
        with Seen(seen):
            1 // 0
        seen.append(isinstance(m, Seen))
    return x, seen


@program
def manager_raises_in_exit(x):
    try:
        with Replacing():
            raise ValueError("body")
    except KeyError as e:
        return x, e.args, type(e.__context__).__name__, e.__context__.args


@program
def tensor_modes_in_stack(x):
    out = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        out.append(torch.is_grad_enabled())
        y = x * 2
        stack.enter_context(torch.enable_grad())
        out.append(torch.is_grad_enabled())
    return y, out, torch.is_grad_enabled()


@program
def chosen_manager(x):
    out = []
    for grad in (True, False):
        with contextlib.nullcontext() if grad else torch.no_grad():
            out.append(torch.is_grad_enabled())
            x = x + 1
    return x, out


@program
def abstract_manager(x):
    with Abstract() as m:
        y = x + 1
    return y, isinstance(m, contextlib.AbstractContextManager)


@program
def break_at_redirected_output(x):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print("inside", x.shape[0], sep=":")
    return x * 2, out.getvalue()


class _Listens(TorchFunctionMode):
    """Changes some operations, and notes all."""

    def __init__(self):
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append((getattr(func, "__name__", ""), types, len(args), sorted(kwargs or {})))
        found = func(*args, **(kwargs or {}))
        if func is torch.Tensor.view:
            self.calls.append(type(args[1]).__name__)
        return found + 1 if func is torch.sin else found


class _Replaces(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__getitem__:
            return args[0].sum()
        if func is torch.nn.functional.relu:
            return args[0] * 100
        return func(*args, **(kwargs or {}))


@program
def function_mode(x):
    with _Listens() as mode:
        y = 3 - (torch.sin(x) + 2 - x)
        y = torch.nn.functional.relu(y, inplace=True) if y.shape[0] == 3 else y.norm() + len(y)
        y = y.T.norm(dim=0, keepdim=True) + y.T
        y = torch.cat([y.view(y.shape), x[1:, [0, 2, 1]].cos()])
        y[0] = 1
        z = y.reshape(y.size(0), -1).softmax(dim=-1)[0]
    return y, z, mode.calls, torch.sin(x)


@program
def function_modes_within_each_other(x):
    mode = _Listens()
    with mode, _Replaces():
        y = x[0] + torch.nn.functional.relu(x) + torch.zeros(2, dtype=x.dtype).sum()
    with _Replaces(), mode:
        z = torch.sin(x[1:])
    return y, z, x[0], mode.calls


@program
def function_mode_left_by_an_exception(x):
    mode = _Listens()
    try:
        with mode:
            y = x.cos()
            raise KeyError("k")
    except KeyError:
        y = y.sin()
    return y, mode.calls, torch.overrides._get_current_function_mode_stack()


@program
def device_as_a_context(x):
    with torch.device("meta"):
        y = torch.empty(3)
        with torch.device("cpu"):
            z = torch.ones(3)
    return y.device, z, torch.zeros(2) + x[0, 0]


@program
def function_mode_within_vmap(x):
    def row(i):
        return (i * 2 + torch.arange(4)).sum()

    with _Listens() as mode:
        y = torch.vmap(row)(x)
    return y, "sum" in [name for name, *_ in mode.calls]


@program
def break_within_function_mode(x):
    with _Replaces():
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        z = x[0]
    return y + z, x[0]
