# ruff: noqa
"""Exception groups, and ``except*``."""

from __future__ import annotations

import time

import torch

from .registry import program


def shape(error):
    """What a group comes to, without its traceback."""
    if error is None:
        return None
    told = (
        type(error).__name__,
        type(error.__context__).__name__,
        type(error.__cause__).__name__,
        error.__suppress_context__,
    )
    if isinstance(error, BaseExceptionGroup):
        return *told, error.message, [shape(each) for each in error.exceptions]
    return *told, error.args


def group():
    return ExceptionGroup(
        "outer",
        [ValueError("a"), ExceptionGroup("inner", [TypeError("b"), ValueError("c")]), KeyError("d")],
    )


@program
def star_takes_parts(x):
    seen = []
    try:
        raise group()
    except* ValueError as error:
        seen.append(shape(error))
        x = x + len(error.exceptions)
    except* (TypeError, KeyError) as error:
        seen.append(shape(error))
        x = x * 2
    return x, seen


@program
def star_lets_the_rest_out(x):
    try:
        try:
            raise group()
        except* ValueError:
            x = x + 1
    except ExceptionGroup as error:
        return x, shape(error), str(error)


@program
def star_of_no_group(x):
    try:
        raise ValueError("plain")
    except* ValueError as error:
        return_ = shape(error)
    try:
        try:
            raise KeyError("out")
        except* ValueError:
            x = x * 100
    except KeyError as error:
        return x, return_, shape(error)


@program
def star_raises_itself(x):
    try:
        try:
            raise group()
        except* ValueError:
            raise
        except* TypeError as error:
            raise RuntimeError("other") from error
    except ExceptionGroup as error:
        return x + 1, error.message, [type(each).__name__ for each in error.exceptions], len(error.exceptions)


@program
def star_raises_all_again(x):
    try:
        try:
            raise group()
        except* ValueError:
            raise
        except* TypeError:
            raise
    except ExceptionGroup as error:
        return x + 1, shape(error)


@program
def star_raises_one(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError("a")])
        except* ValueError:
            raise KeyError("k")
    except BaseException as error:
        return x, type(error).__name__, [type(e).__name__ for e in getattr(error, "exceptions", ())]


@program
def star_without_exception(x):
    try:
        x = x + 1
    except* ValueError:
        x = x * 2
    else:
        x = x - 3
    finally:
        x = x * 5
    return x


@program
def star_of_a_group_class(x):
    try:
        try:
            raise ValueError("a")
        except* ExceptionGroup:
            pass
    except TypeError as error:
        return x, str(error)


@program
def star_in_function(x):
    def run():
        try:
            raise group()
        except* ValueError:
            return_.append(1)
        except* TypeError:
            return_.append(2)
        except* KeyError:
            return_.append(3)

    return_ = []
    run()
    return x, return_


@program
def groups_are_split(x):
    whole = group()
    match, rest = whole.split(ValueError)
    chosen = whole.subgroup(lambda each: isinstance(each, KeyError))
    derived = whole.derive([KeyError("z")])
    nothing = whole.subgroup(OSError), whole.split(OSError)[0]
    same = whole.subgroup(ExceptionGroup) is whole, whole.exceptions is whole.exceptions
    return shape(match), shape(rest), shape(chosen), shape(derived), nothing, same, x, isinstance(whole, Exception)


@program
def groups_are_checked(x):
    told = []
    for make in (lambda: ExceptionGroup("g", []), lambda: ExceptionGroup("g", [KeyboardInterrupt()])):
        try:
            make()
        except (ValueError, TypeError) as error:
            told.append((type(error).__name__, str(error)))
    base = BaseExceptionGroup("g", [ValueError()]), BaseExceptionGroup("g", [KeyboardInterrupt()])
    return told, [type(each).__name__ for each in base], x


@program
def star_breaks_within(x):
    seen = []
    try:
        raise group()
    except* ValueError as error:
        seen.append(shape(error))
        time.perf_counter_ns()
        x = x + 1
    except* (TypeError, KeyError) as error:
        seen.append(shape(error))
    return x, seen


@program
def star_breaks_before_rest(x):
    try:
        try:
            raise group()
        except* ValueError as error:
            time.perf_counter_ns()
            x = x + 1
    except ExceptionGroup as error:
        return x, shape(error)


@program
def star_group_escapes_with_break(x):
    try:
        raise group()
    except* ValueError as error:
        kept = error
    except* (TypeError, KeyError):
        pass
    time.perf_counter_ns()
    return shape(kept), x + 1


class Own(ExceptionGroup):
    def derive(self, excs):
        return Own("own " + self.message, excs)


@program
def star_of_an_own_group_break(x):
    try:
        try:
            raise Own("mine", [ValueError("a"), KeyError("b")])
        except* ValueError as error:
            first = shape(error)
    except Own as error:
        return first, shape(error), x


@program
def star_with_notes_break(x):
    try:
        try:
            whole = group()
            whole.add_note("noted")
            raise whole
        except* ValueError:
            raise
    except ExceptionGroup as error:
        return error.__notes__, shape(error), x


@program
def star_breaks_in_a_clause(x):
    orig = ExceptionGroup("outer", [TypeError(1), ValueError(2)])
    try:
        try:
            raise orig
        except* TypeError:
            time.sleep(0)
            raise SyntaxError(3)
        except* ValueError:
            raise SyntaxError(4)
    except ExceptionGroup as error:
        return x + 1, shape(error), [shape(each.__context__) for each in error.exceptions]


@program
def star_parts_share_the_traceback(x):
    orig = ExceptionGroup("outer", [TypeError(1), ValueError(2)])
    try:
        try:
            raise orig
        except* TypeError:
            raise SyntaxError(3)
    except ExceptionGroup as error:
        first, rest = error.exceptions
        same = first.__context__.__traceback__, rest.__traceback__
        traced = orig.__traceback__
        return (
            x + 1,
            [traced is each for each in same],
            [traced == each for each in same],
            error.__traceback__ == traced,
        )


@program
def star_parts_share_the_traceback_in_breaks(x):
    orig = ExceptionGroup("outer", [TypeError(1), ValueError(2)])
    try:
        raise orig
    except* TypeError as error:
        part = error
    except* ValueError:
        pass
    time.sleep(0)
    return x + 1, part.__traceback__ is orig.__traceback__, shape(part)
