"""Exceptions: raised, caught, chained, told to ``__exit__``; their tracebacks and texts."""

from __future__ import annotations

import sys
import traceback
import types

import torch

from .table import changed, family, vector

program = family("exceptions")


def fails(kind=ValueError, text="bad"):
    raise kind(text)


@program
def type_and_message(call):
    space = types.SimpleNamespace(kind=ValueError, text="a")

    def f(x):
        y = x + 1
        if space.text:
            raise space.kind(space.text)
        return y

    call.across(
        [changed(space, "kind", KeyError), changed(space, "text", "b"), changed(space, "text", "")], f, vector()
    )


@program
def caught_and_kept(call):
    def f(x):
        try:
            fails()
        except ValueError as error:
            return x + 1, error

    for _ in range(2):
        error = call(f, vector())[1]
        call.note(
            error, error.__traceback__ is not None, error.__context__, error.__cause__, error.__suppress_context__
        )


@program
def traceback_of_caught(call):
    def f(x):
        try:
            fails()
        except ValueError as error:
            return x * (2 if error.__traceback__ is None else 3)

    call(f, vector())
    call(f, vector())


@program
def traceback_lines(call):
    def f(x):
        try:
            fails()
        except ValueError as error:
            names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            return x + 1, names

    call(f, vector())
    call(f, vector())


@program
def traceback_printed(call):
    def f(x):
        try:
            fails()
        except ValueError:
            return x + 1, traceback.format_exc().splitlines()[-1]

    call(f, vector())


@program
def current_exception(call):
    def f(x):
        try:
            fails()
        except ValueError:
            kind, value, trace = sys.exc_info()
            return x * (2 if kind is ValueError else 3), str(value), trace is None, sys.exc_info()[1] is value

    call(f, vector())
    call(f, vector())


@program
def no_current_exception(call):
    def f(x):
        return x * (2 if sys.exc_info()[0] is None else 3)

    call(f, vector())
    try:
        raise KeyError("outside")
    except KeyError:
        call(f, vector())
    call(f, vector())


@program
def raised_while_handling(call):
    def f(x):
        y = x + 1
        try:
            fails()
        except ValueError:
            fails(KeyError, "second")
        return y

    call(f, vector())
    call(f, vector())


@program
def raised_within_an_outer_handler(call):
    def f(x):
        y = x + 1
        raise ValueError(str(tuple(y.shape)))

    try:
        raise KeyError("outside")
    except KeyError:
        call(f, vector())
    call(f, vector())


@program
def raised_from(call):
    space = types.SimpleNamespace(cause=OSError("disk"))

    def f(x):
        y = x + 1
        try:
            fails()
        except ValueError as error:
            raise RuntimeError("wrapped") from (space.cause or error)
        return y

    call.across(changed(space, "cause", None), f, vector())


@program
def raised_from_none(call):
    def f(x):
        try:
            try:
                fails()
            except ValueError:
                raise KeyError("k") from None
        except KeyError as error:
            return x + 1, error.__suppress_context__, type(error.__context__).__name__, error.__cause__

    call(f, vector())


@program
def exit_gets_the_exception(call):
    seen = []
    call.state = seen

    class Guarded:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, trace):
            seen.append((kind, str(value), trace is None))
            return kind is ValueError

    def f(x, fail):
        with Guarded():
            if fail:
                raise fail("inside")
        return x + 1

    for fail in (None, ValueError, KeyError, None):
        call(f, vector(), fail)


@program
def exit_traceback_names(call):
    seen = []
    call.state = seen

    class Guarded:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, trace):
            seen.extend(frame.name for frame in traceback.extract_tb(trace))
            return True

    def f(x):
        with Guarded():
            fails()
        return x + 1

    call(f, vector())
    call(f, vector())


@program
def exit_decides(call):
    space = types.SimpleNamespace(swallow=True)

    class Guarded:
        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return space.swallow

    def f(x):
        with Guarded():
            fails()
        return x + 1

    call.across(
        [changed(space, "swallow", False), changed(space, "swallow", []), changed(space, "swallow", 1)], f, vector()
    )


@program
def contextlib_exit(call):
    import contextlib

    seen = []
    call.state = seen

    @contextlib.contextmanager
    def guarded():
        try:
            yield 2
        except ValueError as error:
            seen.append((str(error), error.__traceback__ is None))
        finally:
            seen.append("left")

    def f(x, fail):
        with guarded() as k:
            x = x * k
            if fail:
                fails()
            x = x + 1
        return x

    for fail in (False, True, False):
        call(f, vector(), fail)


@program
def finally_order(call):
    seen = []
    call.state = seen

    def f(x, fail):
        try:
            seen.append("try")
            if fail:
                fails()
            return x + 1
        except KeyError:
            seen.append("except")
        finally:
            seen.append("finally")

    for fail in (False, True, False):
        call(f, vector(), fail)


@program
def the_same_exception_raised_again(call):
    error = ValueError("kept")
    call.state = error

    def f(x):
        y = x + 1
        raise error
        return y

    call(f, vector())
    error.args = ("changed",)
    call(f, vector())
    error.args = ("kept",)
    call(f, vector())


@program
def notes_and_arguments(call):
    def f(x):
        try:
            fails()
        except ValueError as error:
            error.add_note("note")
            error.args = (*error.args, 2)
            return x + 1, error.__notes__, error.args

    call(f, vector())


@program
def group(call):
    def f(x):
        seen = []
        try:
            raise ExceptionGroup("g", [ValueError("a"), KeyError("b")])
        except* ValueError as part:
            seen.append(str(part.exceptions[0]))
        except* KeyError as part:
            seen.append(str(part.exceptions[0]))
        return x + len(seen), seen

    call(f, vector())
    call(f, vector())


@program
def error_of_torch(call):
    def f(x, y):
        return x @ y

    call(f, vector(), vector())
    call(f, vector(), torch.ones(4))
    call(f, vector(), vector())


@program
def representations(call):
    class Accent:
        def __repr__(self):
            return "caf\u00e9"

    item = Accent()

    def f(x):
        return x * len(ascii(item)) + len(repr(item)), ascii("\u00e9"), f"{'é'!a}", ascii(["é", item]), "%a" % ("é",)  # noqa: UP031

    call.across(changed(Accent, "__repr__", lambda self: "plain"), f, vector())
