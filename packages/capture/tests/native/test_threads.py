"""Threads, forks and foreign hooks: sessions are a thread's own, and nothing is left installed."""

import inspect
import os
import sys
import threading
import time

import pytest

from capture import _native
from capture.bytecode import argument_names, assemble, decode


class Session:
    cache_limit = 8

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
    # It goes on seeing every frame, those included whose code we have replaced.
    assert [name for name, _ in watcher.asked] == ["<lambda>", "work", "leaf", "leaf", "leaf", "leaf"] * 3

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
