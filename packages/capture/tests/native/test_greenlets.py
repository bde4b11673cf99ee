"""Greenlets interleave calls within one thread: what is in force belongs to the stack of calls that put it there."""

import gc
import importlib.util
import inspect
import random
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from capture import _native
from capture.bytecode import argument_names, assemble, decode
from capture.guards import build_tree, guard_program

greenlet = pytest.importorskip("greenlet", reason="greenlet is not installed")


class Session:
    """Copies what it is asked about; remembers the names."""

    cache_limit = 8
    group = None

    def __init__(self):
        self.asked = []

    def callback(self, func, code, args, globals, builtins):
        self.asked.append(code.co_name)
        if code.co_flags & inspect.CO_GENERATOR:
            return _native.SKIP
        copy = assemble(decode(code), like=code, argnames=argument_names(code))
        return _native.Entry(guard_program(build_tree([]), code), copy, recursive=code is leaf.__code__)


def leaf(x):
    return x + 1


def other(x):
    return x + 2


def switch(x):
    """In the middle of a compiled call: let another greenlet run."""
    before = leaf(x)
    greenlet.getcurrent().parent.switch(x)
    return before, leaf(x), _native.is_active()


@pytest.fixture(autouse=True)
def balanced():
    assert _native.stats()["wanted"] == 0 and not _native.is_active()
    yield
    assert _native.stats()["wanted"] == 0 and not _native.is_active()


def deep(n, function, *args):
    return function(*args) if n == 0 else deep(n - 1, function, *args)


@pytest.mark.parametrize("depth", [0, 120])
def test_the_greenlet_switched_to_sees_no_session(depth):
    session = Session()
    compiled = _native.CompiledCallable(deep, session)
    worker = greenlet.greenlet(lambda: compiled(depth, switch, 1))
    assert worker.switch() == 1
    assert not _native.is_active()
    assert other(1) == 3
    assert "other" not in session.asked
    assert worker.switch() == (2, 2, True)
    assert not _native.is_active()


def test_calls_that_end_out_of_order():
    """The first to begin ends first; its session, gone by then, was put back by the second when it ended."""
    dead = []

    def start(x):
        session = Session()
        dead.append(weakref.ref(session))
        return greenlet.greenlet(_native.CompiledCallable(switch, session)), session.asked

    (first, first_asked), (second, second_asked) = start(1), start(2)
    first.switch(1)
    second.switch(2)
    assert first.switch() == (2, 2, True)
    del first
    gc.collect()
    assert dead[0]() is None and dead[1]() is not None
    assert second.switch() == (3, 3, True)
    del second
    gc.collect()
    assert dead[1]() is None
    assert other(1) == 3 and not _native.is_active()
    assert first_asked[:2] == second_asked[:2] == ["switch", "leaf"]


def test_a_greenlet_that_calls_no_python_function():
    """Its stack has no Python frame when the call begins."""
    sessions = [Session() for _ in range(3)]
    workers = [greenlet.greenlet(_native.CompiledCallable(switch, session)) for session in sessions]
    for worker in workers:
        worker.switch(1)
    random.Random(0).shuffle(workers)
    assert [worker.switch() for worker in workers] == [(2, 2, True)] * 3


def test_a_session_switches_away_while_it_captures():
    """Another greenlet then calls the code that is being captured: it runs eagerly, and nothing waits for ever."""

    class Switching(Session):
        def callback(self, func, code, args, globals, builtins):
            if code is leaf.__code__:
                greenlet.getcurrent().parent.switch("captures")
            return super().callback(func, code, args, globals, builtins)

    for whole in (False, True):
        session = Switching()
        compiled = _native.CompiledCallable(leaf, session, whole=whole)
        worker = greenlet.greenlet(compiled)
        assert worker.switch(1) == "captures"
        session.callback = lambda *args: Session.callback(session, *args)
        assert compiled(5) == 6
        assert session.asked == ["leaf"] * whole
        assert worker.switch() == 2
        assert compiled(6) == 7 and len(_native.entries(leaf.__code__, session)) == 1 + whole


def test_held_back_in_one_only():
    session = Session()

    def skipped(x):
        greenlet.getcurrent().parent.switch(x)
        return leaf(x)

    _native.mark_skip(skipped.__code__, recursive=True)
    worker = greenlet.greenlet(_native.CompiledCallable(skipped, session))
    worker.switch(1)
    assert _native.CompiledCallable(lambda x: (leaf(x), _native.is_active()), session)(1) == (2, True)
    assert worker.switch() == 2

    held = greenlet.greenlet(_native.CompiledCallable(_native.DisabledCallable(switch), session))
    held.switch(1)
    assert _native.CompiledCallable(lambda: _native.is_active(), session)() is True
    assert held.switch() == (2, 2, False)


def test_exceptions_and_greenlets_that_are_dropped():
    session = Session()
    compiled = _native.CompiledCallable(switch, session)
    failing, dropped = greenlet.greenlet(compiled), greenlet.greenlet(compiled)
    failing.switch(1)
    dropped.switch(1)
    with pytest.raises(KeyError):
        failing.throw(KeyError("x"))
    assert _native.stats()["wanted"] == 1
    del dropped, failing
    gc.collect()
    assert _native.stats()["wanted"] == 0


def test_generators_suspended_within_a_compiled_call():
    session = Session()

    def numbers(n):
        for i in range(n):
            yield leaf(i), _native.is_active()

    def take(generator):
        return next(generator)

    compiled = _native.CompiledCallable(take, session)
    made = _native.CompiledCallable(lambda n: numbers(n), session)(6)
    assert compiled(made) == (1, True)
    assert next(made) == (2, False)
    worker = greenlet.greenlet(compiled)
    assert worker.switch(made) == (3, True)
    assert compiled(made) == (4, True) and next(made) == (5, False)


def test_a_thread_that_ends_with_a_suspended_call():
    def run():
        workers.append(greenlet.greenlet(_native.CompiledCallable(switch, Session())))
        workers[0].switch(1)

    workers = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert _native.stats()["wanted"] == 0
    assert _native.CompiledCallable(leaf, Session())(1) == 2


def test_many_at_random():
    def work(x, depth, chooser, sessions):
        if depth == 0:
            greenlet.getcurrent().parent.switch(_native.is_active())
            return leaf(x)
        callable_ = _native.CompiledCallable(work, chooser.choice(sessions)) if chooser.random() < 0.3 else work
        return callable_(x, depth - 1, chooser, sessions) + other(x) - x - 2

    def run():
        chooser = random.Random(1)
        sessions = [Session() for _ in range(4)]  # a thread's own: what another captures would run eagerly meanwhile
        alive = [greenlet.greenlet(_native.CompiledCallable(work, chooser.choice(sessions))) for _ in range(30)]
        started = set()
        while alive:
            worker = chooser.choice(alive)
            result = (
                worker.switch()
                if worker in started
                else worker.switch(7, chooser.choice([0, 3, 60]), chooser, sessions)
            )
            started.add(worker)
            assert not _native.is_active()
            assert result == 8 if worker.dead else result is True
            alive = [each for each in alive if not each.dead]

    def guarded():
        try:
            for _ in range(3):
                run()
        except BaseException as error:
            errors.append(error)

    errors, before = [], sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=guarded) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors


GEVENT = """
import gevent
from capture import _native
from test_greenlets import Session, leaf

def work(n):
    total = 0
    for i in range(n):
        total += leaf(i)
        gevent.sleep(0)
    return total, _native.is_active()

def outside(n):
    seen = []
    for _ in range(n):
        gevent.sleep(0)
        seen.append(_native.is_active())
    return any(seen)

compiled = _native.CompiledCallable(work, Session())
jobs = [gevent.spawn(compiled, n) for n in range(10)] + [gevent.spawn(outside, 10) for _ in range(3)]
gevent.joinall(jobs, raise_error=True)
assert [job.value for job in jobs] == [(sum(range(1, n + 1)), True) for n in range(10)] + [False] * 3
assert _native.stats()["wanted"] == 0
"""


def test_gevent():
    """In a process of its own: importing gevent adds an audit hook, whose frames other tests would see."""
    if importlib.util.find_spec("gevent") is None:
        pytest.skip("gevent is not installed")
    folder = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", GEVENT], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
