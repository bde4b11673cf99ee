# ruff: noqa
"""Exceptions and context managers."""

from __future__ import annotations

import contextlib
import time

import torch

from .registry import program


class Custom(ValueError):
    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


@program
def exceptions(x):
    out = []
    try:
        raise Custom("bad", 7)
    except ValueError as e:
        out.append((e.code, str(e), e.args))
    finally:
        out.append("finally")
    try:
        {}["k"]
    except (IndexError, KeyError) as e:
        out.append(repr(e))
    else:
        out.append("else")
    try:
        try:
            int("x")
        except ValueError as e:
            raise RuntimeError("outer") from e
    except RuntimeError as e:
        out.append(str(e))
    for i in range(3):
        try:
            if i == 1:
                continue
            x = x + i
        finally:
            out.append(i)
    return out, x


def _finally_return(x):
    try:
        return x + 1
    finally:
        x = x * 0


@program
def finally_returns(x):
    return _finally_return(x)


@program
def assertion(x):
    assert x.dim() >= 1, "message"
    try:
        assert x.shape[0] > 10000, f"got {x.shape[0]}"
    except AssertionError as e:
        return str(e), x


@program
def nested_function_raises(x):
    def f(i):
        if i > 1:
            raise KeyError(i)
        return i

    got = []
    for i in range(4):
        try:
            got.append(f(i))
        except KeyError as e:
            got.append(-e.args[0])
    return got, x * sum(got)


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, tb):
        self.log.append(kind.__name__ if kind else None)
        return kind is KeyError


@contextlib.contextmanager
def managed(log, v):
    log.append(v)
    try:
        yield v + 1
    finally:
        log.append("out")


@program
def context_managers(x):
    log = []
    with Manager(log) as m, managed(log, 3) as v:
        x = x + v
    with Manager(log):
        raise KeyError("swallowed")
    with contextlib.suppress(ValueError):
        int("z")
    with contextlib.nullcontext(5) as five:
        x = x * five
    return x, log, m.log is log


@program
def grad_modes(x):
    a = torch.is_grad_enabled()
    with torch.no_grad():
        b = torch.is_grad_enabled()
        y = x * 2
        with torch.enable_grad():
            z = x * 3
    with torch.set_grad_enabled(False):
        w = x + 1
    return a, b, y, z, w, y.requires_grad, torch.is_grad_enabled()


@torch.no_grad()
def _decorated(x):
    return x * 2, torch.is_grad_enabled()


@program
def no_grad_decorator(x):
    return _decorated(x), torch.is_grad_enabled()


@program
def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
        inside = torch.is_autocast_enabled("cpu")
    return y, y.dtype, inside, (x @ x.t()).dtype, torch.is_autocast_enabled("cpu")


class _Told(Exception):
    def __init__(self, what, told=2):
        super().__init__(what)
        self.told = told


@contextlib.contextmanager
def _noting(notes):
    try:
        yield
    except _Told as error:
        notes.append(error.told)


@program
def exception_thrown_into_a_context_manager(x):
    notes = []
    with _noting(notes):
        raise _Told("a", told=x.shape[0])
    return notes, x + 1


@program
def throws_of_a_generator(x):
    def caught():
        for _ in range(4):
            try:
                yield
            except _Told as error:
                found.append((error.args, error.told))

    found, it = [], caught()
    next(it)
    it.throw(_Told("b", told=7))
    it.throw(_Told("c"))
    return found, x + 1


@program
def global_made_and_deleted(x):
    global _made_here
    _made_here = [x]
    kept = _made_here
    del _made_here
    try:
        return _made_here
    except NameError as error:
        return str(error), kept, x + 1


@program
def classes_that_look_at_their_arguments(x):
    seen = []
    for cls, *args in (
        (SyntaxError, "bad", ("file", 1, 2)),
        (SyntaxError, "bad", ("file", 1, 2, "text")),
        (UnicodeDecodeError, "ascii"),
        (UnicodeEncodeError, "ascii", "a", 0, 1, "reason"),
    ):
        try:
            seen.append(cls(*args).args)
        except TypeError as error:
            seen.append(type(error))
    return seen, x + 1


@program
def text_of_one_never_initialised_breaks(x):
    return str(UnicodeEncodeError.__new__(UnicodeEncodeError)), x + 1


class NoEnter:
    def __exit__(self, *args):
        pass


class NoExit:
    def __enter__(self):
        pass


@program
def with_of_no_manager(x):
    seen = []
    for cls in (NoEnter, NoExit, Exception().__class__.__base__):
        try:
            with cls():
                pass
        except TypeError as error:
            seen.append(str(error))
    return seen, x + 1


@program
def causes_that_are_refused(x):
    seen = []
    for cause in (5, int, IndexError, None, ValueError("z")):
        try:
            raise KeyError from cause
        except Exception as error:
            seen.append((type(error), str(error), type(error.__cause__), error.__suppress_context__))
    return seen, x + 1


@program
def attributes_of_exceptions_come_and_go_breaks(x):
    error = ValueError(1)
    error.b, error.a = 1, x
    error.add_note("first")
    del error.b, error.__notes__
    error.b = 2
    error.add_note("second")
    time.sleep(0)
    return list(vars(error)), error.a, error.b, error.__notes__, x + 1


class Doubling(ValueError):
    @property
    def doubled(self):
        return self._doubled

    @doubled.setter
    def doubled(self, value):
        self._doubled = value * 2

    @doubled.deleter
    def doubled(self):
        self._doubled = "gone"


@program
def properties_of_exceptions(x):
    error, other = Doubling(1), Doubling(2)
    error.doubled = other.doubled = 3
    del other.doubled
    return error.doubled, other.doubled, list(vars(error)), x + 1


@program
def properties_of_exceptions_break(x):
    error = Doubling(1)
    error.doubled = x
    time.sleep(0)
    return error.doubled, list(vars(error)), x + 1
