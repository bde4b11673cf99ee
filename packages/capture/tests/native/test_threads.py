"""Threads, forks and foreign hooks: sessions are a thread's own, and nothing is left installed."""

import inspect
import os
import signal
import sys
import threading
import time

import pytest

from capture import _native
from capture.bytecode import argument_names, assemble, decode
from capture.guards import build_tree, guard_program


class Session:
    cache_limit = 8
    group = None

    def __init__(self):
        self.asked = []

    def callback(self, func, code, args, globals, builtins):
        if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            return _native.SKIP
        self.asked.append((code.co_name, threading.get_ident()))
        return _native.Entry(None, assemble(decode(code), like=code, argnames=argument_names(code)))

    def on_limit(self, func, code, args, globals, builtins):
        raise AssertionError("no limit here")


def leaf(x):
    return x + 1


def work(n):
    total = 0
    for i in range(n):
        total += leaf(i)
        if i % 7 == 0:
            time.sleep(0)  # let others run
    return total


def test_other_threads_are_not_looked_at():
    seen = []

    def function():
        thread = threading.Thread(target=lambda: seen.append((leaf(1), _native.is_active())))
        thread.start()
        thread.join()
        return _native.is_active()

    session = Session()
    assert _native.CompiledCallable(function, session)() is True
    assert seen == [(2, False)]
    me = threading.get_ident()
    assert {ident for _, ident in session.asked} == {me}
    assert "leaf" not in [name for name, _ in session.asked]


def test_many_threads():
    session = Session()
    compiled = _native.CompiledCallable(work, session)
    expected = work(200)
    results, errors = [], []

    def run():
        try:
            for _ in range(10):
                results.append(compiled(200))
                if len(results) % 5 == 0:
                    _native.reset_code(leaf.__code__)
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors
    assert results == [expected] * 60
    assert not _native.is_active()


def test_exceptions_leave_nothing_behind():
    def function(n):
        if n == 0:
            raise KeyError
        return function(n - 1)

    compiled = _native.CompiledCallable(function, Session())
    for _ in range(20):
        with pytest.raises(KeyError):
            compiled(5)
    assert not _native.is_active()
    session = Session()
    leaf(1)
    assert session.asked == []


class Slow(Session):
    """Captures `leaf` when it is told to."""

    longest_wait = 30.0

    def __init__(self):
        super().__init__()
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.error = None

    def callback(self, func, code, args, globals, builtins):
        if code is not leaf.__code__:
            return None
        self.asked.append((code.co_name, threading.get_ident()))
        self.begun.set()
        assert self.may_end.wait(30)
        if self.error is not None:
            raise self.error
        copy = assemble(decode(code), like=code, argnames=argument_names(code))
        return _native.Entry(guard_program(build_tree([]), code), copy, recursive=True)


class InThread:
    """A call in a thread of its own; `get()` is its result or raises its exception."""

    def __init__(self, function, *args):
        def run():
            try:
                self.result = function(*args)
            except BaseException as error:
                self.error = error

        self.error = None
        self.thread = threading.Thread(target=run)
        self.thread.start()

    def get(self):
        self.thread.join(30)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.result


def until_waiting(number):
    before = time.monotonic()
    while _native.stats()["waits"] < number:
        assert time.monotonic() - before < 30
        time.sleep(0.001)


def test_while_one_thread_captures_others_run_eagerly():
    session = Slow()
    compiled = _native.CompiledCallable(leaf, session)
    first = InThread(compiled, 1)
    session.begun.wait(30)
    assert [InThread(compiled, i).get() for i in range(4)] == [1, 2, 3, 4]
    session.may_end.set()
    assert first.get() == 2 and compiled(2) == 3
    assert len(session.asked) == len(_native.entries(leaf.__code__, session)) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_who_promised_to_run_captured_waits(fails):
    session = Slow()
    session.error = KeyError("no") if fails else None
    compiled = _native.CompiledCallable(leaf, session, whole=True)
    waits = _native.stats()["waits"]
    first = InThread(compiled, 1)
    session.begun.wait(30)
    others = [InThread(compiled, i) for i in range(4)]
    until_waiting(waits + 4)
    session.may_end.set()
    if fails:  # each has to try for itself
        for call in (first, *others):
            with pytest.raises(KeyError, match="no"):
                call.get()
        assert len(session.asked) == 5
    else:
        assert [first.get(), *(other.get() for other in others)] == [2, 1, 2, 3, 4]
        assert len(session.asked) == 1


def test_a_capture_that_needs_what_waits_for_it():
    """The callback waits for a thread which calls the same code: the wait has an end."""
    session = Slow()
    session.longest_wait = 0.01
    compiled = _native.CompiledCallable(leaf, session, whole=True)
    first = InThread(compiled, 1)
    session.begun.wait(30)
    inner = InThread(compiled, 5)
    while len(session.asked) < 2:  # it captures for itself
        time.sleep(0.001)
    session.may_end.set()
    assert (inner.get(), first.get()) == (6, 2)


def test_a_wait_is_interrupted():
    session = Slow()
    compiled = _native.CompiledCallable(leaf, session, whole=True)
    waits = _native.stats()["waits"]
    first = InThread(compiled, 1)
    session.begun.wait(30)

    def interrupt():
        until_waiting(waits + 1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    interrupter = InThread(interrupt)
    with pytest.raises(KeyboardInterrupt):
        compiled(1)
    interrupter.get()
    session.may_end.set()
    assert first.get() == 2 and compiled(3) == 4
    assert not _native.is_active() and _native.stats()["wanted"] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("whole", [False, True])
def test_fork_while_another_thread_captures(whole):
    session = Slow()
    compiled = _native.CompiledCallable(leaf, session, whole=whole)
    first = InThread(compiled, 1)
    session.begun.wait(30)
    child = os.fork()
    if child == 0:
        try:
            session.callback = lambda *args: Session.callback(session, *args)
            if whole:
                session.begun, session.may_end = threading.Event(), threading.Event()
                session.may_end.set()
                session.callback = lambda *args: Slow.callback(session, *args)
            asked = len(session.asked)
            fine = compiled(1) == compiled(1) == 2 and len(session.asked) == asked + 1
            os._exit(0 if fine and _native.stats()["wanted"] == 0 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    session.may_end.set()
    assert first.get() == 2 and len(session.asked) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_fork():
    session = Session()

    def child_status():
        child = os.fork()
        if child == 0:
            try:
                before = len(session.asked)
                fine = _native.CompiledCallable(work, session)(50) == sum(range(1, 51))
                os._exit(0 if fine and len(session.asked) > before and _native.is_active() else 1)
            except BaseException:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert _native.CompiledCallable(child_status, session)() == 0


def test_chains_with_another_hook(tmp_path):
    """A second copy of the extension stands for another tool with a frame hook."""
    import importlib.util
    import shutil

    copy = tmp_path / "_native_copy.so"
    shutil.copy(_native.__file__, copy)
    spec = importlib.util.spec_from_file_location("capture._native", copy)
    other = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(other)

    class Watcher(Session):
        def callback(self, func, code, args, globals, builtins):
            self.asked.append((code.co_name, 0))

    watcher, session = Watcher(), Session()
    compiled = _native.CompiledCallable(work, session)
    watched = other.CompiledCallable(lambda: (compiled(3), leaf(1)), watcher)
    _native.mark_skip(Watcher.callback.__code__, recursive=True)
    assert watched() == (6, 2)  # now the other hook has seen our callback run, too
    assert [name for name, _ in session.asked] == ["work", "leaf"]
    watcher.asked.clear()
    for _ in range(3):
        assert watched() == (6, 2)
    assert len(session.asked) == 2
    # Within our call frames are ours to look at, as they would be a compiler's that our session calls.
    assert [name for name, _ in watcher.asked] == ["<lambda>", "leaf"] * 3

    around = _native.CompiledCallable(lambda: watched(), Session())
    for _ in range(3):
        assert around() == (6, 2)
    assert not _native.is_active() and not other.is_active()


def test_tracing_sees_the_users_lines():
    def function(x):
        y = leaf(x)
        return y

    lines = []

    def trace(frame, event, arg):
        if event == "line":
            lines.append((frame.f_code.co_name, frame.f_lineno))
        return trace

    compiled = _native.CompiledCallable(function, Session())
    compiled(1)
    old = sys.gettrace()
    sys.settrace(trace)
    try:
        assert compiled(1) == 2
    finally:
        sys.settrace(old)
    first = function.__code__.co_firstlineno
    assert ("function", first + 1) in lines and ("leaf", leaf.__code__.co_firstlineno + 1) in lines
