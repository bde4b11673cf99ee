# ruff: noqa
"""Exceptions: chains, notes, groups, state of custom ones, what is being handled, tracebacks."""

from __future__ import annotations

import sys
import time
import traceback

import torch

from .registry import program


class Base(Exception):
    pass


class Left(Base):
    pass


class Right(Base, KeyError):
    pass


class Failed(Exception):
    def __init__(self, code, value):
        super().__init__(f"failed {code}")
        self.code, self.value = code, value

    def __str__(self):
        return f"[{self.code}]"


@program
def exception_chain(x):
    try:
        try:
            raise ValueError("first")
        except ValueError as e:
            raise KeyError("second") from e
    except KeyError as e:
        return x + 1, e.args, e.__cause__.args, e.__context__ is e.__cause__, e.__suppress_context__


@program
def exception_context(x):
    try:
        try:
            1 // 0
        except ZeroDivisionError:
            [][0]
    except IndexError as e:
        return x, type(e.__context__).__name__, e.__cause__, e.__suppress_context__


@program
def exception_from_none(x):
    try:
        try:
            raise ValueError("a")
        except ValueError:
            raise KeyError("b") from None
    except KeyError as e:
        return x, e.__cause__, e.__suppress_context__, e.__context__.args


@program
def exception_context_in_finally(x):
    try:
        try:
            raise ValueError("a")
        finally:
            raise KeyError("b")
    except KeyError as e:
        return x, e.__context__.args


@program
def exception_notes(x):
    try:
        try:
            raise ValueError("v")
        except ValueError as e:
            e.add_note("one")
            e.add_note("two")
            raise
    except ValueError as e:
        return x, e.__notes__, hasattr(KeyError(), "__notes__")


@program
def exception_state(x):
    try:
        raise Failed(3, x * 2)
    except Failed as e:
        return e.code, e.value, str(e), e.args, isinstance(e, Exception)


@program
def exception_hierarchy(x):
    out = []
    for cls in (Left, Right, Base, KeyError, RuntimeError):
        try:
            raise cls("m")
        except Left:
            out.append("left")
        except (Right, IndexError):
            out.append("right")
        except Base:
            out.append("base")
        except LookupError:
            out.append("lookup")
        except Exception as e:
            out.append(type(e))
    return x, out


@program
def exception_reraised(x):
    log = []

    def f(n):
        try:
            try:
                if n:
                    raise ValueError(n)
            except ValueError:
                log.append("inner")
                raise
            else:
                log.append("else")
            finally:
                log.append("finally")
        except ValueError as e:
            log.append(e.args)
        return x * n

    return f(0), f(1), log


@program
def exception_else_finally(x):
    log = []

    def f(n):
        for i in range(3):
            try:
                if i == n:
                    continue
                if i > n:
                    return "returned"
            finally:
                log.append(i)
        else:
            return "else"

    return f(0), f(5), log, x


@program
def finally_overrides(x):
    def f():
        try:
            return "try"
        finally:
            return "finally"

    def g():
        try:
            raise ValueError
        finally:
            return "swallowed"

    def h():
        while True:
            try:
                return 1
            finally:
                break
        return 2

    return f(), g(), h(), x


@program
def exception_info(x):
    out = [sys.exc_info()]
    try:
        raise ValueError("v")
    except ValueError as e:
        cls, value, tb = sys.exc_info()
        out.append((cls, value is e, tb is None))
    out.append(sys.exc_info())
    return x, out


@program
def exception_info_nested(x):
    def current():
        return sys.exc_info()[0]

    out = []
    try:
        raise KeyError
    except KeyError:
        out.append(current())
        try:
            raise ValueError
        except ValueError:
            out.append(current())
        out.append(current())
    out.append(current())
    return x, out


@program
def exception_name_is_deleted(x):
    try:
        raise ValueError
    except ValueError as e:
        pass
    try:
        e
    except UnboundLocalError as error:
        return x, str(error)


@program
def break_at_exception_group_splits(x):
    group = ExceptionGroup("many", [ValueError(1), KeyError("k"), ExceptionGroup("inner", [ValueError(2)])])
    out = []
    try:
        raise group
    except* ValueError as e:
        out.append([type(s).__name__ for s in e.exceptions])
    except* KeyError as e:
        out.append((e.message, [s.args for s in e.exceptions]))
    return x + 1, out


@program
def break_at_exception_group_leftover(x):
    out = []
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError as e:
            out.append(len(e.exceptions))
    except ExceptionGroup as rest:
        out.append((rest.message, [type(s) for s in rest.exceptions]))
    try:
        raise KeyError("naked")
    except* KeyError as e:
        out.append((type(e).__name__, e.exceptions[0].args))
    return x, out


@program
def break_at_exception_group_methods(x):
    g = ExceptionGroup("g", [ValueError(1), TypeError(2), ExceptionGroup("h", [ValueError(3)])])
    match, rest = g.split(ValueError)
    sub = g.subgroup(lambda e: isinstance(e, TypeError))
    return (
        x,
        str(g),
        len(match.exceptions),
        rest.exceptions[0].args,
        sub.exceptions[0].args,
        g.derive([KeyError()]).message,
    )


@program
def exception_texts(x):
    errors = [ValueError(), ValueError("a"), ValueError("a", 2), KeyError("k"), KeyError(), OSError(2, "no", "f")]
    return x, [str(e) for e in errors], [repr(e) for e in errors]


@program
def break_at_exception_attributes(x):
    out = []
    for f in (lambda: x.nothing, lambda: missing_name, lambda: {}["k"], lambda: next(iter([])), lambda: int("z")):
        try:
            f()
        except AttributeError as e:
            out.append((e.name, e.obj is x))
        except NameError as e:
            out.append(e.name)
        except (KeyError, StopIteration, ValueError) as e:
            out.append(e.args)
    return x, out


@program
def exception_equality(x):
    a, b = ValueError(1), ValueError(1)
    return x, a == b, a == a, len({a, b}), a is not b


@program
def exception_arguments_change(x):
    try:
        raise ValueError("a")
    except ValueError as e:
        e.args = (*e.args, 2)
        e.extra = x
        return e.args, e.extra, str(e)


@program
def exception_in_comprehension(x):
    def check(i):
        if i == 2:
            raise ValueError(i)
        return x * i

    out = []
    try:
        out = [check(i) for i in range(4)]
    except ValueError as e:
        out.append(e.args[0])
    return out


@program
def break_at_traceback_texts(x):
    def f():
        raise ValueError("deep")

    try:
        f()
    except ValueError as e:
        return x, traceback.format_exception_only(e), traceback.format_exception_only(type(e), e)


@program
def assertion(x):
    out = []
    assert x.dim() == 2, "two"
    try:
        assert x.shape[0] == 99, f"size {x.shape[0]}"
    except AssertionError as e:
        out.append(str(e))
    return x, out


@program
def raised_class_or_instance(x):
    out = []
    for what in (ValueError, ValueError("i"), "text", int):
        try:
            raise what
        except ValueError as e:
            out.append(e.args)
        except TypeError as e:
            out.append(str(e))
    return x, out


@program
def nested_handlers(x):
    log = []
    try:
        try:
            raise ValueError("a")
        except ValueError:
            try:
                raise KeyError("b")
            except KeyError as inner:
                log.append(inner.__context__.args)
            raise
    except ValueError as e:
        log.append((e.args, e.__context__))
    return x * 2, log


@program
def exception_kept(x):
    kept = None
    try:
        raise ValueError("kept")
    except ValueError as e:
        kept = e
    y = x * 2
    return y, kept.args, type(kept)


@program
def exception_with_traceback(x):
    e = ValueError("v").with_traceback(None)
    try:
        raise e
    except ValueError as got:
        return x, got is e, got.__traceback__ is not None


@program
def traceback_taken_away(x):
    try:
        try:
            raise KeyError("a")
        except KeyError:
            raise ValueError("b")
    except ValueError as error:
        bare = error.with_traceback(None)
    first = bare.__traceback__ is None, bare.args, type(bare.__context__)
    try:
        raise bare
    except ValueError as error:
        return x + 1, first, error.__traceback__ is not None, type(error.__context__)


@program
def traceback_taken_away_breaks(x):
    try:
        try:
            raise KeyError("a")
        except KeyError:
            raise ValueError("b")
    except ValueError as error:
        bare = error.with_traceback(None)
    time.sleep(0)
    return x + 1, bare.__traceback__ is None, bare.args, type(bare.__context__)


@program
def raised_again_keeps_its_context(x):
    try:
        try:
            raise KeyError("a")
        except KeyError:
            raise ValueError("b")
    except ValueError as error:
        kept = error
    try:
        raise kept
    except ValueError as error:
        return x + 1, type(error.__context__)


@program
def break_where_a_context_is_handled(x):
    try:
        try:
            raise KeyError("a")
        except KeyError:
            x.sum() > -1e9 and None
            raise ValueError("b")
    except ValueError as error:
        kept = error
    try:
        raise kept
    except ValueError as error:
        return x + 1, type(error.__context__)
