"""Exceptions through the hook: the program's, the session's, and for answers that are none."""

import gc
import sys
import traceback

import pytest
from native_sessions import Always, Session, copy, same

from capture import _native
from capture.guards import Guard, GuardKind, build_tree, guard_program
from capture.sources import Local


def test_exceptions_pass_with_the_users_lines():
    def callee(x):
        y = x
        raise ValueError(y)

    def caller(x):
        try:
            return callee(x)
        finally:
            x = 2

    session = Session(Always(copy))
    compiled = _native.CompiledCallable(caller, session)
    expected = "".join(traceback.format_exception(_caught(caller)))
    for _ in range(3):
        found = "".join(traceback.format_exception(_caught(compiled)))
        assert found == expected
    assert session.names == ["caller", "callee"]
    assert not _native.is_active()


def _caught(function):
    try:
        function(3)
    except ValueError as error:
        return error.with_traceback(error.__traceback__.tb_next)


def test_exceptions_of_the_callback_reach_the_user():
    def function(x):
        return x

    def answer(func, code, args):
        session.asked.clear()
        raise KeyError("cannot")

    session = Session({"function": answer})
    compiled = _native.CompiledCallable(function, session)
    values = [object() for _ in range(3)]
    counts = [sys.getrefcount(value) for value in values]
    for value in values:
        with pytest.raises(KeyError, match="cannot"):
            compiled(value)
    del value
    gc.collect()
    assert [sys.getrefcount(value) for value in values] == counts
    assert not _native.is_active()


@pytest.mark.parametrize("answer", [1, "SKIP", object()])
def test_wrong_answers(answer):
    def function(x):
        return x

    with pytest.raises(TypeError, match="callback returns"):
        _native.CompiledCallable(function, Session({"function": lambda *_: answer}))(1)


def test_wrong_entries():
    def function(x):
        return x

    def other(x, y):
        return y

    wrong = _native.Entry(None, same(other.__code__))
    with pytest.raises(ValueError, match="takes 2 arguments"):
        _native.CompiledCallable(function, Session({"function": lambda *_: wrong}))(1)
    guards = guard_program(build_tree([Guard(Local("y"), GuardKind.TYPE, int)]), other.__code__)
    wrong = _native.Entry(guards, same(function.__code__))
    with pytest.raises(ValueError, match="the guards read 2 arguments"):
        _native.CompiledCallable(function, Session({"function": lambda *_: wrong}))(1)

    def variadic(*args):
        return args

    with pytest.raises(ValueError, match="positional parameters"):
        _native.Entry(None, variadic.__code__)


def test_a_promise_is_kept_or_broken_aloud():
    def callee(x):
        return x

    def function(x):
        return callee(x)

    def whole(func, code, args):
        return _native.Entry(guard_program(build_tree([]), code), same(code), recursive=True)

    session = Session({"function": whole, "callee": copy})
    compiled = _native.CompiledCallable(function, session, whole=True)
    assert compiled(1) == compiled(1) == 1
    assert session.names == ["function"]  # nothing beneath is looked at
    for answer in (None, _native.SKIP, _native.SKIP_RECURSIVE, copy):
        broken = _native.CompiledCallable(function, Session({"function": answer}), whole=True)
        for _ in range(2):
            with pytest.raises(LookupError, match="function: it is left to the interpreter"):
                broken(1)
    session = Session(cache_limit=0)
    with pytest.raises(LookupError, match="left to the interpreter"):
        _native.CompiledCallable(function, session, whole=True)(1)
    assert set(session.limits) == {"function"}
    with pytest.raises(TypeError, match="missing 1 required"):
        compiled()
    with pytest.raises(TypeError, match="only a Python function"):
        _native.CompiledCallable(len, session, whole=True)
    assert not _native.is_active()


def test_a_promised_call_within_a_callback_is_an_error():
    def function(x):
        return x

    inner = _native.CompiledCallable(function, Session(), whole=True)
    outer = _native.CompiledCallable(lambda x: x, Session(Always(lambda func, code, args: inner(1))))
    with pytest.raises(LookupError, match="None: called while another capture is in progress"):
        outer(1)
