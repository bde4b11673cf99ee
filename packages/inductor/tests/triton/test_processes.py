"""Kernels are compiled by other processes as by this one, and by this one where those fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PREAMBLE = """
import os, signal, sys, time
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.errors import CompilationError
from inductor.triton import binaries, processes
from inductor.triton.building import make_function

TEXT = '''@triton.jit
def scaled(x, y, XBLOCK: tl.constexpr):
    at = tl.arange(0, XBLOCK)
    tl.store(y + at, libdevice.sin(prelude.divide(tl.load(x + at), tl.load(x))))
'''
here = []
compile_here = binaries._here
binaries._here = lambda source, *rest: here.append(source.name) or compile_here(source, *rest)

def source(block, text=TEXT):
    function = make_function(text, "scaled")
    aligned = {(0,): [["tt.divisibility", 16]]}
    return ASTSource(function, {"x": "*fp32", "y": "*fp32", "XBLOCK": "constexpr"}, {"XBLOCK": block}, aligned)

def compiled(block, text=TEXT):
    found = binaries.compile_for(source(block, text), GPUTarget("cuda", 90, 32), {"num_warps": 2})
    return found._replace(key=None)

def by_this_process(block):
    return compile_here(source(block), GPUTarget("cuda", 90, 32), {"num_warps": 2, "debug": False})

def workers():
    # Those that can be asked, when all that were started can.
    pool, until = processes.pool(), time.monotonic() + 60
    while pool._starting:
        assert time.monotonic() < until
        time.sleep(0.01)
    return pool._idle
"""


def run(folder: Path, program: str, processes: str = "2") -> None:
    """The program passes in an interpreter of its own, which may start so many processes."""
    pytest.importorskip("triton", reason="compiles with Triton")
    surroundings = {
        **os.environ,
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "INDUCTOR_CACHE_DIR": str(folder / "ours"),
        "INDUCTOR_COMPILE_PROCESSES": processes,
    }
    surroundings.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + program], capture_output=True, text=True, env=surroundings, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_code_is_the_same(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
binaries.prepare()
assert len(workers()) == 2
assert compiled(128) == by_this_process(128) != compiled(256)
assert not here, "all of it elsewhere"
assert len(workers()) == 2, "they are kept for the next one"
""",
    )


def test_processes_do_not_import_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('torch is imported')")
    run(tmp_path, f"sys.path.insert(0, {str(tmp_path)!r})\nassert compiled(128) and not here")


def test_one_that_is_gone_is_replaced(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
assert compiled(128)
(first,) = workers()
first._process.kill(), first._process.wait()
assert compiled(256) and workers() != [first]
(second,) = workers()
second._process.kill()
second.alive = lambda: True  # it dies after it was looked at
assert compiled(512) and not here
""",
    )


def test_more_kernels_than_processes(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
from concurrent.futures import ThreadPoolExecutor
binaries.prepare()
with ThreadPoolExecutor(6) as threads:
    found = list(threads.map(compiled, [16, 32, 64, 128, 256, 512]))
assert len({each.code for each in found}) == 6 and not here, "all of them elsewhere"
assert len(workers()) == processes.pool()._count == 2 and not processes.pool()._waiting
""",
    )


def test_all_that_wait_are_told_that_none_can_be_started(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
from concurrent.futures import ThreadPoolExecutor
sys.executable = "/bin/false"
with ThreadPoolExecutor(4) as threads:
    assert all(threads.map(compiled, [16, 32, 64, 128]))
assert len(here) == 4 and not workers() and processes.pool()._most == processes.pool()._count == 0
""",
    )


def test_kernels_that_fail_fail_here(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
try:
    compiled(128, TEXT.replace("XBLOCK)\\n", "3)\\n"))
except CompilationError as error:
    assert "power of 2" in str(error)
else:
    raise AssertionError("it compiled")
assert here == ["scaled"]
assert compiled(128) and len(here) == 1, "the process goes on"
""",
    )


def test_changed_settings_are_heard_of(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
usual = compiled(128)
os.environ["DISABLE_PTXAS_OPT"] = "1"
slow = compiled(128)
assert not here and slow.code != usual.code and slow == by_this_process(128)
binaries.knobs.compilation.disable_line_info = True
assert compiled(256) and len(here) == 1, "what the program says itself"
""",
    )


@pytest.mark.parametrize("interpreter", ["/bin/false", "/no/such/interpreter"])
def test_where_none_can_be_started(tmp_path: Path, interpreter: str) -> None:
    run(
        tmp_path,
        f"""
sys.executable = {interpreter!r}
assert compiled(128) and len(here) == 1
assert compiled(256) and len(here) == 2
assert not workers() and processes.pool()._most == 0
""",
    )


def test_none_are_asked_for(tmp_path: Path) -> None:
    run(tmp_path, "binaries.prepare()\nassert compiled(128) and len(here) == 1 and not workers()", processes="0")


def test_forked_processes_have_their_own(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
assert compiled(128)
child = os.fork()
if child == 0:
    os._exit(0 if not workers() and compiled(256) and not here else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert len(workers()) == 1 and compiled(512) and not here
""",
    )


def test_they_end_with_who_started_them(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
import subprocess
asked = subprocess.run([sys.executable, "-c", '''
from inductor.triton import binaries, processes
binaries.prepare()
pool = processes.pool()
print(*(worker._process.pid for worker in [*pool._idle, *pool._starting]))
'''], capture_output=True, text=True, check=True)
pids = [int(pid) for pid in asked.stdout.split()]
assert len(pids) == 2
until = time.monotonic() + 60
while any(os.path.exists(f"/proc/{pid}") for pid in pids):
    assert time.monotonic() < until, "still there"
    time.sleep(0.05)
""",
    )


def test_those_that_only_start_do_not_hold_up_the_end(tmp_path: Path) -> None:
    (tmp_path / "folders").mkdir()
    run(
        tmp_path,
        f"""
import tempfile
tempfile.tempdir = os.environ["TMPDIR"] = {str(tmp_path / "folders")!r}
binaries.prepare()
begun = time.monotonic()
processes._end()
assert time.monotonic() - begun < processes.PATIENCE
assert not os.listdir(tempfile.tempdir)
""",
        processes="6",
    )


def test_one_whose_program_was_killed_leaves_nothing_and_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "folders").mkdir()
    run(
        tmp_path,
        f"""
import subprocess, tempfile
tempfile.tempdir = os.environ["TMPDIR"] = {str(tmp_path / "folders")!r}
killed = subprocess.run([sys.executable, "-c", "from inductor.triton import binaries; binaries.prepare(); import os; os.kill(os.getpid(), 9)"],
    stderr=subprocess.PIPE, text=True)  # until all that could write to it are gone
assert killed.returncode == -9 and not killed.stderr, killed.stderr
assert not os.listdir(tempfile.tempdir)
""",
    )


def test_one_that_leaves_as_it_is_asked_is_replaced(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
binaries.prepare()
first, second = workers()
_, elsewhere = os.pipe()
os.dup2(elsewhere, second._questions.fileno())  # it ends, as it does of itself when it was idle for long, and is asked
assert compiled(128) and not here
assert processes.pool()._most == 2, "more can be started"
""",
    )


def test_an_interrupted_program_goes_on_with_processes(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
binaries.prepare()
workers()
pickle_load = processes.pickle.load
def interrupted(file):
    processes.pickle.load = pickle_load
    raise KeyboardInterrupt
processes.pickle.load = interrupted
try:
    compiled(128)
except KeyboardInterrupt:
    assert compiled(128) and not here and processes.pool()._most == 2
else:
    raise AssertionError("it was not interrupted")
""",
    )


def test_programs_of_different_settings_do_not_take_each_others_processes(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
import threading
from inductor.triton.compile_worker import Request
made, start = [], processes.Worker.__init__
processes.Worker.__init__ = lambda self, *args, **named: made.append(self) or start(self, *args, **named)
pool, found = processes.Pool(1), []
busy = pool._take(("one",))
asking = [threading.Thread(target=lambda name=name: found.append((name, give(name))), daemon=True) for name in ("other", "one")]
def give(name):
    worker = pool._take((name,))
    with pool._changed:
        pool._give_back(worker)
    return worker.settings
for each in asking:
    each.start()
    time.sleep(0.2)
with pool._changed:
    pool._give_back(busy)
for each in asking:
    each.join(20)
assert found == [("one", ("one",)), ("other", ("other",))], found
assert len(made) == 2 and not pool._waiting
pool.close()
""",
        processes="1",
    )


def test_who_is_interrupted_as_it_is_told_passes_it_on(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
import threading
pool, found = processes.Pool(1), []
busy = pool._take(())
def interrupted():
    try:
        pool._take(())
    except KeyboardInterrupt:
        found.append("interrupted")
real = pool._changed.wait
def wait():
    told = real()
    if threading.current_thread() is first:
        raise KeyboardInterrupt
pool._changed.wait = wait
first = threading.Thread(target=interrupted, daemon=True)
second = threading.Thread(target=lambda: found.append(pool._take(())), daemon=True)
for each in (first, second):
    each.start()
    time.sleep(0.2)
with pool._changed:
    pool._give_back(busy)
second.join(20), first.join(20)
assert sorted(map(str, found)) == sorted(["interrupted", str(busy)])
busy.close()
""",
        processes="1",
    )
