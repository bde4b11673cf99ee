"""The frame hook and its cache: what is looked at, what runs, what is remembered."""

import inspect
import weakref

import pytest
from native_sessions import Always, Session, constant, copy

from capture import _native
from capture.bytecode import Instruction, assemble, build


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
