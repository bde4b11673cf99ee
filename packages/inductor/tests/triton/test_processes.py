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
