"""Processes that prepare together and are timed one at a time, with nothing else at work on the machine.

A child calls `await_turn()` between what may share the machine (building, compiling) and what may not (timing). Its parent runs its
commands through `in_turn`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ASKED, READY = "BENCHMARKS_AWAIT_TURN", "ready to be timed"
WAITING = 2
"""How many times as many wait to be timed as prepare at a time: what waits holds its memory, and a GPU has only so much."""


def await_turn() -> None:
    """Return once no other process of this parent prepares or is timed; at once in a process that has no such parent."""
    if os.environ.get(ASKED):
        print(READY, flush=True)
        sys.stdin.readline()


@dataclass(frozen=True)
class Done:
    """What a child printed, and how it ended."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def reason(self) -> str:
        """The last thing that one which failed said."""
        return (self.stderr.strip().splitlines() or [f"exit {self.returncode}"])[-1]


@dataclass
class _Child:
    process: subprocess.Popen[str]
    errors: Path
    printed: str = ""

    def prepare(self) -> None:
        """Until it is ready, or ends without being timed."""
        assert self.process.stdout
        for line in self.process.stdout:
            if line.strip() == READY:
                return
            self.printed += line

    def finish(self) -> Done:
        rest, _ = self.process.communicate("\n")
        return Done(self.process.returncode, self.printed + rest, self.errors.read_text())


Command = tuple[Sequence[str], Mapping[str, str]]
"""A command line and its environment."""


def in_turn(commands: Sequence[Command], jobs: int) -> Iterator[Done]:
    """Run commands. `jobs` of them prepare at a time; when `WAITING` times as many have, each is timed alone, in order. With one job a
    command ends before the next begins."""
    together = WAITING * jobs if jobs > 1 else 1
    for first in range(0, len(commands), together):
        yield from _together(commands[first : first + together], jobs)


def _together(commands: Sequence[Command], jobs: int) -> Iterator[Done]:
    children: list[_Child] = []

    def start(command: Sequence[str], environment: Mapping[str, str], errors: Path) -> _Child:
        with errors.open("w") as file:
            process = subprocess.Popen(
                command,
                env={**environment, ASKED: "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        child = _Child(process, errors)
        children.append(child)
        child.prepare()
        return child

    with tempfile.TemporaryDirectory() as folder:
        try:
            with ThreadPoolExecutor(jobs) as pool:
                started = [pool.submit(start, *one, Path(folder, str(at))) for at, one in enumerate(commands)]
            for one in started:
                yield one.result().finish()
        finally:
            for child in children:
                child.process.kill()
                child.process.wait()
