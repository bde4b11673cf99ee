"""Processes, one an architecture: forked from a server that has imported the libraries, bounded in time and memory."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

from benchmarks.architectures.probe import Case, Record, probe

PRELOADED = ["torch", "transformers", "timm", "meta", "cpu_codegen", "benchmarks.architectures.probe"]


@dataclass(frozen=True)
class Limits:
    """Of one architecture's process: seconds for one case, bytes resident; and when the sweep ends (time.monotonic())."""

    seconds: float
    memory: int
    ends: float = float("inf")


@dataclass
class Running:
    name: str
    process: Any
    results: Any
    open: list[tuple[Case, str]]
    """Cases and contenders not reported yet."""
    since: float = field(default_factory=time.monotonic)


def _child(
    name: str, cases: list[Case], contenders: list[str], threads: int, results: Any, lengths: tuple[int, ...]
) -> None:
    import torch

    torch.set_num_threads(threads)
    # What models and compilers print is not the table.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    probe(name, cases, contenders, results.send, lengths)
    results.close()
    os._exit(0)  # destructors of half-broken compiles must not turn a result into a crash


def run(
    names: Sequence[str],
    cases: Sequence[Case],
    contenders: Sequence[str],
    jobs: int,
    limits: Limits,
    lengths: Sequence[int] = (),
) -> Iterator[dict[str, Any]]:
    """Records as they come. After a time-out the architecture's other cases start in another process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    waiting = [(name, list(cases)) for name in reversed(names)]
    running: list[Running] = []
    while (waiting and time.monotonic() < limits.ends) or running:
        while waiting and len(running) < jobs and time.monotonic() < limits.ends:
            name, todo = waiting.pop()
            here, there = context.Pipe(duplex=False)
            args = (name, todo, list(contenders), threads, there, tuple(lengths))
            process = context.Process(target=_child, args=args, daemon=True)
            process.start()
            there.close()
            running.append(Running(name, process, here, [(case, c) for case in todo for c in contenders]))
        ready = multiprocessing.connection.wait([r.results for r in running], timeout=0.5)
        for one in list(running):
            if one.results in ready:
                try:
                    record = one.results.recv()
                    one.since = time.monotonic()
                    case = (record["device"], record["mode"])
                    one.open = [o for o in one.open if o[0] != case or record["contender"] not in ("eager", o[1])]
                    yield record
                    continue
                except EOFError:
                    status = "died"
            else:
                status = _over(one, limits)
                if not status:
                    continue
            one.process.kill()
            one.process.join()
            running.remove(one)
            if one.open:
                (device, mode), contender = one.open[0]
                record = Record(one.name, device, mode, contender, status=status)
                record.error = f"exit code {one.process.exitcode}"
                yield record.as_json()
                left = list(dict.fromkeys(case for case, _ in one.open if case != one.open[0][0]))
                if left:
                    waiting.append((one.name, left))


def _over(one: Running, limits: Limits) -> str:
    """Which limit a process is over, if any."""
    now = time.monotonic()
    if now > limits.ends:
        return "sweep over"
    if now - one.since > limits.seconds:
        return "timed out"
    try:
        if psutil.Process(one.process.pid).memory_info().rss > limits.memory:
            return "out of memory"
    except psutil.NoSuchProcess:
        print(f"{one.name}: gone", file=sys.stderr)
    return ""
