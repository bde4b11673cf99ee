"""Processes that compile kernels beside each other (`compile_worker.py`): Python's lock is held for a quarter of the time that it takes.

Flows in: requests. Flows out: binaries; None where no process serves, or it failed: who asks compiles by itself then.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
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
"""Seconds in which a process has ended that stopped answering because it ends."""
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
        # Made and removed here, too: so a process may be killed at any time, as when it only starts and hears of nothing yet.
        self._folder = tempfile.mkdtemp(prefix="triton-")
        try:
            self._process = subprocess.Popen(
                [*command, self._folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                process_group=0,  # killed with the assembler that it runs, which then writes no more to the folder
            )
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        assert self._process.stdin and self._process.stdout
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self.proved = False
        """It answered."""
        self._greeted = False

    def greet(self) -> None:
        """Wait until it can be asked; raises one of `_ENDS` where the process is gone."""
        pickle.load(self._answers)
        self._greeted = True

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

    def left(self) -> bool:
        """Whether it is gone, or about to be, because it was idle for long: nothing is wrong with it."""
        try:
            return self._greeted and self._process.wait(PATIENCE) == 0
        except subprocess.TimeoutExpired:
            return False

    def kill(self) -> None:
        """Let it end now, and all that it runs."""
        if self.alive():
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """See to it that it ended and left nothing behind."""
        self.kill()
        self._process.wait()
        with contextlib.suppress(OSError):  # half a question is left
            self._questions.close()
        self._answers.close()  # not before: who greets it reads
        shutil.rmtree(self._folder, ignore_errors=True)


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
        self._waiting: list[Settings] = []
        """What each thread that waits wants."""

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
            except _ENDS:
                self._drop(worker, at_fault=not (worker.proved or worker.left()))
            except BaseException:  # as when the program is interrupted: an answer is on its way that nobody waits for
                self._drop(worker, at_fault=False)
                raise
            else:
                with self._changed:
                    self._give_back(worker)
                return found
        return None

    def close(self) -> None:
        """Let all end that nothing is asked of, at the same time."""
        with self._changed:
            leaving = [*self._idle, *self._starting]
            self._idle.clear()
            self._starting.clear()
            self._count -= len(leaving)
        for worker in leaving:
            worker.kill()
        for worker in leaving:
            worker.close()

    def _take(self, settings: Settings) -> Worker | None:
        with self._changed:
            self._waiting.append(settings)
            try:
                while True:
                    worker = self._free(settings)
                    if worker is not None:
                        return worker
                    starting = sum(each.settings == settings for each in self._starting)
                    if self._count < self._most and starting < self._waiting.count(settings):
                        self._start(settings, ahead=False)
                    if not self._count:
                        return None
                    if not any(each.settings == settings for each in self._idle):
                        self._changed.wait()
            finally:
                self._waiting.remove(settings)
                # What it was told of, or kept for it, is now another's.
                self._changed.notify_all()

    def _free(self, settings: Settings) -> Worker | None:
        """One with these settings; those go that are gone, or whose settings nobody wants any more."""
        found = None
        for worker in self._idle[::-1]:
            if not worker.alive() or worker.settings not in self._waiting:
                self._idle.remove(worker)
                self._count -= 1
                worker.close()
            elif found is None and worker.settings == settings:
                found = worker
        if found is not None:
            self._idle.remove(found)
        return found

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
            self._drop(worker, at_fault=True)
            return
        with self._changed:
            if worker in self._starting:
                self._starting.discard(worker)
                self._give_back(worker)

    def _give_back(self, worker: Worker) -> None:
        self._idle.append(worker)
        self._changed.notify_all()  # not all want its settings

    def _drop(self, worker: Worker, *, at_fault: bool) -> None:
        worker.close()
        with self._changed:
            self._count -= 1
            if at_fault:  # the next one would fail as well
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
