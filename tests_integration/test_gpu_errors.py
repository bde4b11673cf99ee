"""On a GPU: memory that runs out, kernels that can't be launched, kernels that touch what is not theirs. Elsewhere skipped.

`TRITON_INTERPRET=0 pytest tests_integration/test_gpu_errors.py` runs them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
import torch

import capture
import meta

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ["TRITON_INTERPRET"] != "0",
    reason="needs a CUDA GPU, and Triton's compiler in place of its interpreter (TRITON_INTERPRET=0)",
)


@pytest.fixture(autouse=True)
def _raising() -> Iterator[None]:
    before, capture.config.on_error = capture.config.on_error, "raise"
    meta.reset()
    yield
    capture.config.on_error = before


def times(x: torch.Tensor, count: int) -> torch.Tensor:
    """So many copies of `x`, none of them a view."""
    return (x + 1).expand(count, *x.shape) * 2


@pytest.fixture
def room() -> Iterator[int]:
    """Bytes that this process may take of the device: other tests run beside it."""
    bytes = 1 << 28
    torch.cuda.empty_cache()
    taken = torch.cuda.memory_reserved()
    torch.cuda.set_per_process_memory_fraction((taken + bytes) / torch.cuda.get_device_properties(0).total_memory)
    yield bytes
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_memory_that_runs_out_is_eagers_error_and_the_next_call_works(mode: str, room: int) -> None:
    x = torch.randn(1 << 16, device="cuda")
    too_many = 2 * room // x.nbytes
    with pytest.raises(torch.OutOfMemoryError):
        times(x, too_many)
    run = meta.compile(times, mode=mode)
    with torch.no_grad():
        for _ in range(3):
            with pytest.raises(torch.OutOfMemoryError):
                run(x, too_many)
            for _ in range(3):
                torch.testing.assert_close(run(x, 3), times(x, 3))


@torch.no_grad()
def test_memory_that_runs_out_while_a_graph_is_recorded(room: int) -> None:
    """A recording holds memory of its own beside what the first call has taken: there may be room for one and not for the other."""
    run = meta.compile(lambda x: torch.sort(x * 2).values + 1, mode="reduce-overhead")
    for part in (64, 24, 16, 12, 8):
        values = torch.randn(room // part // 4)
        expected, x = torch.sort(values * 2).values + 1, values.cuda()
        for _ in range(3):
            with contextlib.suppress(torch.OutOfMemoryError):
                assert torch.equal(run(x).cpu(), expected)
    small = torch.randn(1000, device="cuda")
    for _ in range(3):
        assert torch.equal(run(small), torch.sort(small * 2).values + 1)


def in_a_process(text: str) -> subprocess.CompletedProcess[str]:
    """A program of its own: what breaks the device's context breaks it for the whole process."""
    head = """
        import torch, triton, triton.language as tl
        import capture, meta
        capture.config.on_error = "raise"
    """
    # Triton reads a kernel's source from its file.
    program = textwrap.dedent(head) + textwrap.dedent(text)
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"illegal_{os.getpid()}.py")
    with open(path, "w") as file:
        file.write(program)
    try:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        return subprocess.run(
            [sys.executable, path], capture_output=True, text=True, timeout=300, env=environment, check=False
        )
    finally:
        os.unlink(path)


FAR = """
    @triton.jit
    def far(x, n, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        tl.store(x + at + n, tl.full([BLOCK], 1.0, tl.float32))

    def program(x):
        y = x * 2
        far[(1,)](y, 1 << 44, BLOCK=128)
        return y + 1
"""


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_kernel_that_writes_where_nothing_is_ends_in_an_error_and_not_the_process(mode: str) -> None:
    """CUDA gives such a context up: each further call says so, and the process ends as programs do."""
    rest = f"""
        run = meta.compile(program, mode={mode!r})
        x = torch.ones(128, device="cuda")
        for _ in range(3):
            try:
                with torch.no_grad():
                    run(x)
                torch.cuda.synchronize()
            except RuntimeError as error:
                print("refused:", str(error).splitlines()[0])
        cpu = torch.ones(3)
        print("alive", meta.compile(lambda x: x + 1)(cpu).tolist())
    """
    done = in_a_process(textwrap.dedent(FAR) + textwrap.dedent(rest))
    assert done.returncode == 0, done.stderr[-2000:]
    assert "alive [2.0, 2.0, 2.0]" in done.stdout
    assert done.stdout.count("refused:") == 3
    assert "illegal memory access" in done.stdout


def test_a_kernel_that_asks_for_more_than_the_device_has_is_refused_and_the_next_runs() -> None:
    text = """
        @triton.jit
        def large(x, out, BLOCK: tl.constexpr):
            rows = tl.arange(0, BLOCK)
            a = tl.load(x + rows[:, None] * BLOCK + rows[None, :])
            tl.store(out + rows[:, None] * BLOCK + rows[None, :], tl.dot(a, a).to(tl.float16))

        def program(x, block: int):
            out = torch.empty_like(x)
            large[(1,)](x, out, BLOCK=block, num_warps=4)
            return out + 1

        run = meta.compile(program)
        try:
            print(run(torch.ones(512, 512, device="cuda", dtype=torch.float16), 512).sum())
        except Exception as error:
            print("refused:", type(error).__name__, str(error).splitlines()[0])
        x = torch.ones(32, 32, device="cuda", dtype=torch.float16)
        print("alive", run(x, 32)[0, 0].item())
    """
    done = in_a_process(text)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "refused:" in done.stdout and "alive 33.0" in done.stdout
