"""What was compiled once is compiled no more, as long as it would come out the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from inductor.triton import binaries
from inductor.triton.building import make_function
made, compile = [], triton.compile
triton.compile = lambda source, **given: made.append(source.name) or compile(source, **given)
exec(sys.argv[1])
function = make_function('''@triton.jit
def twice(x, y, XBLOCK: tl.constexpr):
    library.begin()
    at = tl.arange(0, XBLOCK)
    tl.store(y + at, tl.load(x + at) * 2)
''', "twice")
def source(block, attrs):
    return ASTSource(function, {"x": "*fp32", "y": "*fp32", "XBLOCK": "constexpr"}, {"XBLOCK": block}, attrs)
aligned = {(0,): [["tt.divisibility", 16]]}
for block, attrs, warps, arch in ((128, {}, 4, 90), (128, {}, 4, 90), (256, {}, 4, 90), (128, aligned, 4, 90), (128, {}, 1, 90), (128, {}, 4, 80)):
    found = binaries.compile_for(source(block, attrs), GPUTarget("cuda", arch, 32), {"num_warps": warps})
    assert found.name == "twice" and found.code[:4] == b"\\x7fELF" and found.threads == 32 * warps and found.shared == 0
    assert found.early == (arch >= 90)
print(len(made))
"""


def compiled(folder: Path, before: str = "", **environment: str) -> int:
    """How many of five kernels, one of them asked for twice, a new process compiles."""
    surroundings = {
        **os.environ,
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "INDUCTOR_CACHE_DIR": str(folder / "ours"),
        **environment,
    }
    surroundings.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, before], capture_output=True, text=True, env=surroundings, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_kernels_are_compiled_once(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="compiles with Triton")
    assert compiled(tmp_path) == 5
    assert compiled(tmp_path) == 0
    (damaged,) = (path for path in sorted(tmp_path.glob("ours/**/code"))[:1])
    damaged.write_bytes(b"\x7fELF" + bytes(1000))
    assert compiled(tmp_path) == 1, "what is damaged is compiled again"
    assert compiled(tmp_path, DISABLE_PTXAS_OPT="1") == 5, "the environment changes the code"
    assert compiled(tmp_path, "knobs.compilation.disable_line_info = True") == 5, "as the program does"
    assert compiled(tmp_path, "knobs.compilation.listener = lambda **_: None") == 6, "the listener is told of each"
    assert compiled(tmp_path, "binaries._HELPERS = ('product.py',)") == 5, "functions that kernels call have changed"
