"""The frame hook and its cache: what is looked at, what runs, what is remembered."""

import gc
import inspect
import sys
import traceback
import weakref

import pytest

from capture import _native
from capture.bytecode import Instruction, argument_names, assemble, build, decode
from capture.guards import Guard, GuardKind, build_tree, guard_program
from capture.sources import Closure, Global, Local


class Session:
    """Records what it is asked, answers by `answers[code name]`: a function of (func, code, args) or a value."""

    group = None

    def __init__(self, answers=None, cache_limit=8):
        self.answers = {} if answers is None else answers
        self.cache_limit = cache_limit
        self.asked = []
        self.limits = []
        self.misfits = []
        self.depths = []

    def callback(self, func, code, args, globals, builtins):
        self.asked.append((code.co_name, args))
        assert globals is func.__globals__ and "len" in builtins
        answer = self.answers.get(code.co_name)
        return answer(func, code, args) if callable(answer) else answer

    def on_limit(self, func, code, args, globals, builtins):
        self.limits.append(code.co_name)

    def on_misfit(self, code, guard):
        self.misfits.append((code.co_name, guard))

    def on_depth(self, code, reason):
        self.depths.append(code.co_name)

    def on_broken_promise(self, code, reason):
        raise LookupError(f"{code and code.co_name}: {reason}")

    @property
    def names(self):
        return [name for name, _ in self.asked]


def same(code):
    """The code itself, with a replacement's signature."""
    return assemble(decode(code), like=code, argnames=argument_names(code))


def constant(code, value):
    """A replacement that returns a constant."""
    body = [*build.prologue([], code.co_freevars), *build.load_const(value), *build.return_value()]
    return assemble(body, like=code, argnames=argument_names(code))


def copy(func, code, args):
    return _native.Entry(None, same(code))


def by_type(result=None):
    """Specialise on the exact type of the first argument; return `result`, or run as it is."""

    def answer(func, code, args):
        guard = Guard(Local(argument_names(code)[0]), GuardKind.TYPE, type(args[0]))
        replacement = same(code) if result is None else constant(code, (result, type(args[0]).__name__))
        return _native.Entry(guard_program(build_tree([guard]), code), replacement)

    return answer


class Always(dict):
    """Answers for every code."""

    def __init__(self, answer):
        self.answer = answer

    def get(self, name):
        return self.answer


def test_asks_for_each_frame_beneath():
    def callee(a, *rest, key=3, **more):
        return a, rest, key, more

    def caller(x, y=2):
        return callee(x), callee(x, y, z=4)

    session = Session()
    compiled = _native.CompiledCallable(caller, session)
    assert compiled(1) == ((1, (), 3, {}), (1, (2,), 3, {"z": 4}))
    assert session.asked == [
        ("caller", (1, 2)),
        ("callee", (1, 3, (), {})),
        ("callee", (1, 3, (2,), {"z": 4})),
    ]
    caller(1)
    assert len(session.asked) == 3  # nothing is looked at outside


def test_none_asks_again_and_skip_does_not():
    def callee(x):
        return x

    def caller(x):
        return callee(x) + callee(x)

    session = Session()
    assert _native.CompiledCallable(caller, session)(1) == 2
    assert session.names == ["caller", "callee", "callee"]
    session = Session({"caller": _native.SKIP})
    compiled = _native.CompiledCallable(caller, session)
    assert compiled(1) == compiled(1) == 2
    assert session.names == ["caller", "callee", "callee", "callee", "callee"]
    session = Session({"caller": _native.SKIP_RECURSIVE})
    compiled = _native.CompiledCallable(caller, session)
    assert compiled(1) == compiled(1) == 2
    assert session.names == ["caller"]


def test_replacement_runs_for_all_kinds_of_parameters():
    def function(a, b=2, /, c=3, *args, d, e=5, **kwargs):
        local = a + b
        return local, c, args, d, e, kwargs

    session = Session(Always(copy))
    compiled = _native.CompiledCallable(function, session)
    for _ in range(3):
        assert compiled(1, d=4) == function(1, d=4)
        assert compiled(1, 3, 5, 7, 9, d=0, z=1) == function(1, 3, 5, 7, 9, d=0, z=1)
    assert session.names == ["function"]
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument"):
        compiled(1)


def test_closures_and_cells():
    def outer(start):
        total = start

        def add(amount):
            nonlocal total
            amounts.append(lambda: amount)
            total += amount
            return total

        amounts = []
        return add, amounts

    add, amounts = outer(10)
    session = Session(Always(copy))
    compiled = _native.CompiledCallable(add, session)
    assert [compiled(1), compiled(2), compiled(3)] == [11, 13, 16]
    assert [each() for each in amounts] == [1, 2, 3]
    other, _ = outer(100)
    assert _native.CompiledCallable(other, session)(5) == 105  # shares the code, not the cells


def test_methods_and_properties():
    class Thing:
        def __init__(self, value):
            self.value = value

        def twice(self, plus=0):
            return 2 * self.value + plus

        @classmethod
        def make(cls, value):
            return cls(value)

        @staticmethod
        def constant():
            return 42

        compiled = _native.CompiledCallable(lambda self, x: self.value + x, Session(Always(copy)))

    session = Session(Always(copy))
    run = _native.CompiledCallable(lambda: (Thing.make(3).twice(plus=1), Thing.constant()), session)
    assert run() == run() == (7, 42)
    assert {"make", "__init__", "twice", "constant"} <= set(session.names)
    assert Thing(5).compiled(1) == 6
    assert inspect.ismethod(Thing(5).compiled)
    assert Thing.compiled(Thing(5), 1) == 6


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


def test_generators_coroutines_and_class_bodies_are_left_alone():
    def generator(n):
        yield from range(n)

    async def coroutine():
        return 1

    def function():
        class Body:
            attribute = list(generator(3))

        made = coroutine()
        try:
            made.send(None)
        except StopIteration as stop:
            return Body.attribute, stop.value, eval("1 + 1")

    left = {"generator": _native.SKIP, "coroutine": _native.SKIP}
    session = Session({"function": copy, **left})
    assert _native.CompiledCallable(function, session)() == ([0, 1, 2], 1, 2)
    # An audit hook, which some library may have set, is a frame like any other.
    names = [name for name in session.names if not name.startswith("_audit")]
    assert names == ["function", "generator", "coroutine"]
    entry = _native.Entry(None, constant((lambda n: n).__code__, 1))
    with pytest.raises(ValueError, match="generator suspends"):
        _native.CompiledCallable(generator, Session(Always(lambda *frame: entry)))(1)


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


def test_stale_guards_run_eagerly():
    def function(x):
        return x

    def answer(func, code, args):
        guards = guard_program(build_tree([Guard(Local("x"), GuardKind.EQUALS, args[0] + 1)]), code)
        return _native.Entry(guards, constant(code, "wrong"))

    session = Session({"function": answer})
    assert _native.CompiledCallable(function, session)(1) == 1
    assert session.misfits == [("function", "x == 2")]


def test_recursion():
    def depth(n):
        return 0 if n == 0 else 1 + depth(n - 1)

    session = Session(Always(copy))
    compiled = _native.CompiledCallable(depth, session)
    before = _native.stats()
    assert compiled(200) == 200
    after = _native.stats()
    assert session.names == ["depth"]
    assert after["in_frame"] + after["by_call"] - before["in_frame"] - before["by_call"] == 201
    assert compiled(900) == 900  # the deeper ones without the hook, as far as the interpreter goes
    assert session.depths == ["depth"]
    with pytest.raises(RecursionError):
        compiled(10**6)
    assert compiled(10) == 10


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


def test_replacement_of_another_size():
    def function(x):
        return x

    def answer(func, code, args):
        names = [f"local{i}" for i in range(200)]
        body = [*build.prologue([], [])]
        for name in names:
            body += [*build.load_fast("x"), *build.store_fast(name)]
        for name in names:
            body += build.load_fast(name)
        body += [*build.build_tuple(len(names)), *build.return_value()]
        return _native.Entry(None, assemble(body, like=code, argnames=("x",)))

    compiled = _native.CompiledCallable(function, Session({"function": answer}))
    for _ in range(50):
        assert compiled("v") == ("v",) * 200

    def nested(n):
        return function(n) if n == 0 else nested(n - 1)

    session = Session({"function": answer})
    run = _native.CompiledCallable(nested, session)
    before = _native.stats()["by_call"]
    for n in range(200):
        assert run(n) == (0,) * 200
    # At the edge of the interpreter's stack chunks the frame cannot grow.
    assert _native.stats()["by_call"] > before


def test_callback_runs_without_the_hook():
    def other(x):
        return x

    def function(x):
        return other(x)

    def answer(func, code, args):
        assert not _native.is_active()
        other(1)
        assert nested(2) == 2
        return _native.SKIP

    session = Session({"function": answer, "other": _native.SKIP})
    compiled = _native.CompiledCallable(function, session)
    inner = Session()
    nested = _native.CompiledCallable(lambda x: x, inner)
    assert compiled(1) == 1
    assert inner.asked == []
    assert session.names == ["function", "other"]


def test_nested_sessions():
    def leaf(x):
        return x

    inner = Session()
    nested = _native.CompiledCallable(lambda x: leaf(x), inner)

    def function(x):
        return nested(x), leaf(x)

    session = Session()
    assert _native.CompiledCallable(function, session)(1) == (1, 1)
    assert session.names == ["function", "leaf"]
    assert inner.names == ["<lambda>", "leaf"]


def test_disabled():
    def leaf(x):
        return x

    plain = _native.DisabledCallable(leaf)
    session = Session()
    nested = _native.CompiledCallable(leaf, session)

    around = _native.DisabledCallable(lambda: nested(1))

    def function(x):
        before = _native.set_disabled(True)
        leaf(x)
        _native.set_disabled(before)
        return plain(x), around()

    outer = Session()
    assert _native.CompiledCallable(function, outer)(1) == (1, 1)
    assert outer.names == ["function"]
    assert session.names == ["leaf"]
    assert plain.__name__ == "leaf" and plain.__wrapped__ is leaf
    with pytest.raises(ZeroDivisionError):
        _native.DisabledCallable(lambda: 1 / 0)()


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


def test_callables_look_like_what_they_wrap():
    def function(x: int, *, y: int = 1) -> int:
        """Docs."""
        return x + y

    compiled = _native.CompiledCallable(function, Session())
    assert compiled.__name__ == "function" and compiled.__doc__ == "Docs."
    assert compiled.__wrapped__ is function
    assert inspect.signature(compiled) == inspect.signature(function)
    compiled.note = 1
    assert compiled.note == 1 and weakref.ref(compiled)() is compiled
    assert "function" in repr(compiled)
    with pytest.raises(TypeError):
        _native.CompiledCallable(1, Session())


def test_instructions_hold_helpers_in_constants():
    def function(x):
        return x

    def helper(*values):
        return sum(values)

    def answer(func, code, args):
        body = [
            *build.prologue([], []),
            *build.call_function(build.load_const(helper), build.load_fast("x"), build.load_const(1)),
            *build.return_value(),
        ]
        return _native.Entry(None, assemble(body, like=code, argnames=("x",)))

    session = Session({"function": answer})
    assert _native.CompiledCallable(function, session)(2) == 3
    assert session.names == ["function", "helper"]
    assert isinstance(build.load_const(1)[0], Instruction)
