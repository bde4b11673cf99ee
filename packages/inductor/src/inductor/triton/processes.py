"""Processes that compile kernels beside each other (`compile_worker.py`): Python's lock is held for a quarter of the time that it takes.

Flows in: requests. Flows out: binaries; None where no process serves, or it failed: who asks compiles by itself then.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

from inductor.triton.binary import Binary
from inductor.triton.compile_worker import Request

WORKER = Path(__file__).with_name("compile_worker.py")
SETTING = "INDUCTOR_COMPILE_PROCESSES"
"""The environment's variable that says how many processes there may be."""
MOST = 16
FEWEST_CORES = 4
"""On fewer this process and one that compiles for it would take turns."""
TRIES = 2
"""Of a kernel in whose company processes end."""
AT_ONCE = 8
"""Are started before it is known how many kernels there are."""
PATIENCE = 1.0
"""Seconds that a process has to end and leave nothing behind."""
Settings = tuple[object, ...]
_ENDS = (OSError, EOFError, pickle.PickleError)
"""How a process that is gone is noticed."""


def most_processes() -> int:
    """As many as there are cores for this process, of those beside it that `torchrun` started, too; or as the environment says.

    Raises:
        ValueError: it says something else than a number.
    """
    told = os.environ.get(SETTING)
    if told is not None:
        if not told.isdecimal():
            raise ValueError(f"{SETTING} is {told!r}, which is no number of processes")
        return int(told)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores //= max(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)
    return min(MOST, cores) if cores >= FEWEST_CORES else 0


class Worker:
    """A process that compiles. Raises OSError where none can be started.

    Args:
        settings: what Triton is told by the environment, which the process has as it is now.
        ahead: whether nothing waits for it yet: it compiles once for practice, then.
    """

    def __init__(self, settings: Settings, *, ahead: bool) -> None:
        self.settings = settings
        environment = {**os.environ, "TRITON_INTERPRET": "0"}
        # Without the script's own folder on the path, whose files are no modules.
        command = [sys.executable, "-P", str(WORKER), json.dumps(sys.path), "ahead" if ahead else "now"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert self._process.stdin and self._process.stdout
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self.proved = False
        """It answered."""

    def greet(self) -> None:
        """Wait until it can be asked; raises one of `_ENDS` where the process is gone."""
        pickle.load(self._answers)

    def compile(self, request: Request) -> Binary | None:
        """Raises one of `_ENDS` where the process is gone."""
        pickle.dump(tuple(request), self._questions)
        self._questions.flush()
        found = pickle.load(self._answers)
        self.proved = True
        return None if found is None else Binary(*found)

    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def leave(self) -> None:
        """Let it end."""
        with contextlib.suppress(OSError):
            self._questions.close()

    def close(self) -> None:
        """See to it that it ended."""
        self.leave()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()  # not before: who greets it reads


class Pool:
    """Workers, started as they are needed and up to a number; each serves one thread at a time. A thread takes the first that is free, which
    one that served another often is before one that starts for it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._idle: list[Worker] = []
        self._starting: set[Worker] = set()
        self._count = 0
        """Of all: those that serve, too."""
        self._waiting = 0
        """Threads."""

    def prepare(self, settings: Settings) -> bool:
        """Start some; whether there are any."""
        for _ in range(AT_ONCE):
            with self._changed:
                if self._count >= min(self._most, AT_ONCE):
                    break
                self._start(settings, ahead=True)
        return self._most > 0

    def compile(self, request: Request, settings: Settings) -> Binary | None:
        """By a process with these settings, if there is one."""
        for _ in range(TRIES):
            worker = self._take(settings)
            if worker is None:
                return None
            try:
                found = worker.compile(request)
            except BaseException as error:
                self._drop(worker)
                if not isinstance(error, _ENDS):
                    raise
            else:
                with self._changed:
                    self._give_back(worker)
                return found
        return None

    def close(self) -> None:
        """Let all end that nothing is asked of."""
        with self._changed:
            leaving = [*self._idle, *self._starting]
            self._idle.clear()
            self._starting.clear()
            self._count -= len(leaving)
        for worker in leaving:
            worker.leave()
        for worker in leaving:
            worker.close()

    def _take(self, settings: Settings) -> Worker | None:
        with self._changed:
            self._waiting += 1
            try:
                while True:
                    worker = self._free(settings)
                    if worker is not None:
                        return worker
                    if self._count < self._most and len(self._starting) < self._waiting:
                        self._start(settings, ahead=False)
                    if not self._count:
                        return None
                    if not self._idle:
                        self._changed.wait()
            finally:
                self._waiting -= 1

    def _free(self, settings: Settings) -> Worker | None:
        while self._idle:
            worker = self._idle.pop()
            if worker.settings == settings and worker.alive():
                return worker
            self._count -= 1
            worker.close()
        return None

    def _start(self, settings: Settings, *, ahead: bool) -> None:
        try:
            worker = Worker(settings, ahead=ahead)
        except OSError:  # nor will another one start: no such interpreter, no memory
            self._most = 0
            return
        self._count += 1
        self._starting.add(worker)
        try:
            threading.Thread(target=self._greet, args=(worker,), name="triton-greet", daemon=True).start()
        except RuntimeError:  # the interpreter ends, and starts nothing any more
            self._greet(worker)

    def _greet(self, worker: Worker) -> None:
        try:
            worker.greet()
        except (*_ENDS, ValueError):  # gone, or closed
            with self._changed:
                if worker not in self._starting:
                    return
                self._starting.discard(worker)
            self._drop(worker)
            return
        with self._changed:
            if worker in self._starting:
                self._starting.discard(worker)
                self._give_back(worker)

    def _give_back(self, worker: Worker) -> None:
        self._idle.append(worker)
        self._changed.notify()

    def _drop(self, worker: Worker) -> None:
        worker.close()
        with self._changed:
            self._count -= 1
            if not worker.proved:  # the next one would fail as well
                self._most = 0
            self._changed.notify_all()


_pools: list[Pool] = []
_making = threading.Lock()


def pool() -> Pool:
    """This process's."""
    with _making:
        if not _pools:
            _pools.append(Pool(most_processes()))
        return _pools[0]


def _forget() -> None:
    """In a forked process: its parent goes on to talk to its workers."""
    global _making
    _making = threading.Lock()
    _pools.clear()


@atexit.register
def _end() -> None:
    for each in _pools:
        each.close()


os.register_at_fork(after_in_child=_forget)
