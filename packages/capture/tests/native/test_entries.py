"""The hook's cache: which entry is chosen, what is remembered, and for how long."""

import gc
import weakref

import pytest
from native_sessions import Always, Session, by_type, constant, copy, same

from capture import _native
from capture.guards import Guard, GuardKind, build_tree, guard_program
from capture.sources import Closure, Global, Local


def test_guards_choose_the_entry():
    def function(x):
        return x

    session = Session({"function": by_type("kept")})
    compiled = _native.CompiledCallable(function, session)
    for value in (1, 1.0, "s", 2, 2.0, "t", 1):
        assert compiled(value) == ("kept", type(value).__name__)
    assert session.names == ["function"] * 3
    entries = _native.entries(function.__code__, session)
    assert [each.hits for each in entries] == [3, 2, 2]  # the last one used is first
    assert "type(x) is int" in str(entries[0].guards.texts)


def test_guards_on_globals_and_closures(monkeypatch):
    def outer(free):
        def function():
            return free, marker  # noqa: F821

        return function

    function = outer(1)
    code = function.__code__

    def answer(func, code, args):
        guards = [
            Guard(Closure("free"), GuardKind.EQUALS, func.__closure__[0].cell_contents),
            Guard(Global("marker"), GuardKind.EQUALS, func.__globals__["marker"]),
        ]
        return _native.Entry(guard_program(build_tree(guards), code), same(code))

    monkeypatch.setitem(globals(), "marker", "a")
    session = Session({"function": answer})
    compiled = _native.CompiledCallable(function, session)
    assert compiled() == compiled() == (1, "a")
    assert len(session.asked) == 1
    monkeypatch.setitem(globals(), "marker", "b")
    assert compiled() == (1, "b")
    assert len(session.asked) == 2
    assert _native.CompiledCallable(outer(2), session)() == (2, "b")
    assert len(session.asked) == 3
    assert len(_native.entries(code, session)) == 3


def test_limit():
    def function(x):
        return x

    session = Session({"function": by_type()}, cache_limit=2)
    compiled = _native.CompiledCallable(function, session)
    for value in (1, 1.0, "s", b"s", None, 2):
        assert compiled(value) == value
    assert session.names == ["function"] * 2
    assert session.limits == ["function"]
    other = Session({"function": by_type()}, cache_limit=2)
    assert _native.CompiledCallable(function, other)(1) == 1
    assert len(other.asked) == 1  # limits are each session's own


def test_sessions_do_not_share_entries():
    def function(x):
        return x

    first, second = Session({"function": by_type("first")}), Session({"function": by_type("second")})
    one, two = _native.CompiledCallable(function, first), _native.CompiledCallable(function, second)
    assert one(1) == ("first", "int") and two(1) == ("second", "int")
    assert one(1) == ("first", "int") and two(1) == ("second", "int")
    assert len(first.asked) == len(second.asked) == 1
    assert len(_native.entries(function.__code__)) == 2


def test_eager_entries_with_guards():
    def callee(x):
        return x

    def function(x):
        return callee(x)

    def answer(func, code, args):
        guards = guard_program(build_tree([Guard(Local("x"), GuardKind.TYPE, type(args[0]))]), code)
        return _native.Entry(guards, None, recursive=isinstance(args[0], int))

    session = Session({"function": answer, "callee": _native.SKIP})
    compiled = _native.CompiledCallable(function, session)
    assert compiled(1) == compiled(1) == 1
    assert session.names == ["function"]
    assert compiled("s") == compiled("s") == "s"
    assert session.names == ["function", "function", "callee"]


def test_marks():
    def callee(x):
        return x

    def function(x):
        return callee(x)

    session = Session()
    compiled = _native.CompiledCallable(function, session)
    _native.mark_skip(function.__code__)
    compiled(1)
    assert session.names == ["callee"]
    _native.mark_skip(function.__code__, recursive=True)
    compiled(1)
    assert session.names == ["callee"]
    _native.reset()
    compiled(1)
    assert session.names == ["callee"]  # marks survive
    _native.unmark_skip(function.__code__)
    compiled(1)
    assert session.names == ["callee", "function", "callee"]


def test_reset():
    def function(x):
        return x

    session = Session({"function": by_type("kept")})
    compiled = _native.CompiledCallable(function, session)
    compiled(1)
    _native.reset_code(function.__code__)
    assert _native.entries(function.__code__) == []
    compiled(1)
    _native.reset()
    compiled(1)
    assert len(session.asked) == 3


def test_stale_guards_run_eagerly():
    def function(x):
        return x

    def answer(func, code, args):
        guards = guard_program(build_tree([Guard(Local("x"), GuardKind.EQUALS, args[0] + 1)]), code)
        return _native.Entry(guards, constant(code, "wrong"))

    session = Session({"function": answer})
    assert _native.CompiledCallable(function, session)(1) == 1
    assert session.misfits == [("function", "x == 2")]


def test_cache_dropped_while_it_runs():
    def function(x):
        if x:
            _native.reset()
            gc.collect()
        return x, "done"

    session = Session(Always(copy))
    compiled = _native.CompiledCallable(function, session)
    for _ in range(5):
        assert compiled(1) == (1, "done")
    # A callback of the collector, which a test tool may have set, is a frame like any other.
    assert [name for name, _ in session.asked if name == "function"] == ["function"] * 5


def test_guard_that_changes_the_cache():
    def function(x):
        return x

    class Resets:
        @property
        def attribute(self):
            _native.reset()
            return 1

    def answer(func, code, args):
        from capture.sources import Attr

        guards = guard_program(build_tree([Guard(Attr(Local("x"), "attribute"), GuardKind.EQUALS, 1)]), code)
        return _native.Entry(guards, constant(code, "kept"))

    compiled = _native.CompiledCallable(function, Session({"function": answer}))
    for _ in range(3):
        assert compiled(Resets()) == "kept"


def test_code_replaced_while_it_is_kept():
    def function(x):
        return x

    session = Session(Always(copy))
    compiled = _native.CompiledCallable(function, session)
    compiled(1)
    function.__code__ = (lambda x: x + 1).__code__
    gc.collect()
    assert compiled(1) == 2


def test_a_session_that_is_gone_frees_its_entries():
    def function(x):
        return x

    class Info:
        pass

    info = Info()
    alive = weakref.ref(info)

    def answer(func, code, args, info=info):
        return _native.Entry(None, same(code), info=info)

    session = Session({"function": answer})
    compiled = _native.CompiledCallable(function, session)
    assert compiled(1) == 1
    del session, compiled, answer, info
    gc.collect()
    assert _native.entries(function.__code__) == []
    other = Session(Always(copy))
    assert _native.CompiledCallable(function, other)(1) == 1
    gc.collect()
    assert alive() is None


def test_code_and_entries_die_together():
    class Info:
        pass

    info = Info()
    alive = weakref.ref(info)
    session = Session({"function": lambda func, code, args: _native.Entry(None, same(code), info=holder.pop())})
    holder = [info]
    space = {}
    exec("def function(x): return x", space)
    compiled = _native.CompiledCallable(space["function"], session)
    assert compiled(1) == 1
    del info
    gc.collect()
    assert alive() is not None
    del space, compiled
    gc.collect()
    assert alive() is None


def test_entry_members():
    def function(x):
        return x

    entry = _native.Entry(None, same(function.__code__), info="about")
    assert entry.info == "about" and entry.guards is None and entry.hits == 0 and not entry.recursive
    with pytest.raises(TypeError):
        _native.Entry(1, None)
    with pytest.raises(TypeError):
        _native.Entry(None, 1)
