"""All checks on a GPU: models in inference and training, the tests that need one, torch's operator database.

    python benchmarks/gpu_check.py [--json FILE] [--jobs N] [--every N] [--only models|tests|operators]

One command on a machine with torch 2.11 or newer, Triton 3.6, CPython 3.12 and a C compiler; no network, nothing installed
(`checkout.py`).
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def median_ms(contenders: dict[str, Callable[[], Any]], rounds: int = 30) -> dict[str, float]:
    """Median milliseconds of one synchronised call of each contender, rounds interleaved."""
    import torch

    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            run()
            torch.cuda.synchronize()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def check(name: str, *, train: bool, dtype: str) -> dict[str, Any]:
    """Compile one model, compare outputs (and gradients) with eager's and with a float64 run, time a step of both."""
    import torch

    import meta
    from tests_integration.accuracy import assert_as_accurate
    from tests_integration.zoo import MODELS, loss_of, output_tensors

    kind = getattr(torch, dtype)
    module, (args, kwargs) = MODELS[name].make(train=train, dtype=kind)
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0

    def place(value: Any, to: torch.dtype) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to("cuda", to) if value.is_floating_point() else value.cuda()

    def step(run: Any, owner: torch.nn.Module, to: torch.dtype) -> list[torch.Tensor | None]:
        owner.zero_grad()
        with torch.set_grad_enabled(train):
            output = run(*(place(a, to) for a in args), **{k: place(v, to) for k, v in kwargs.items()})
            if train:
                loss_of(output).backward()
        return (
            [*(t.detach() for t in output_tensors(output)), *(p.grad for p in owner.parameters())]
            if train
            else output_tensors(output)
        )

    ours, eager, exact = (copy.deepcopy(module).cuda() for _ in range(3))
    exact = exact.double()
    compiled_kernels: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        def note(compiled: Any) -> None:
            compiled_kernels.extend(compiled.kernels)

        return meta.backends.inductor(graph, inputs, on_compiled=note)

    compiled = meta.compile(ours, backend=backend, fullgraph=True)
    start = time.perf_counter()
    found = step(compiled, ours, kind)
    first = time.perf_counter() - start
    expected = step(eager, eager, kind)
    truth = step(exact, exact, torch.float64)
    assert_as_accurate(found, expected, truth, name)
    assert compiled_kernels, "nothing was generated"
    assert all(t is None or t.is_cuda for t in found)
    difference = max(
        (a - b).abs().max().item() for a, b in zip(found, expected, strict=True) if a is not None and b is not None
    )
    times = median_ms({"eager": lambda: step(eager, eager, kind), "ours": lambda: step(compiled, ours, kind)})
    return {
        "model": name,
        "mode": "training" if train else "inference",
        "dtype": dtype,
        "difference": difference,
        "kernels": len(compiled_kernels),
        "first_call_s": first,
        "eager_ms": times["eager"],
        "ours_ms": times["ours"],
    }


TESTS = (
    "tests_integration/test_gpu.py",
    "tests_integration/test_gpu_joint.py",
    "tests_integration/test_gpu_numbers.py",
    "tests_integration/test_gpu_replay.py",
    "tests_integration/test_gpu_errors.py",
    "tests_integration/test_gpus.py",
    "tests_integration/test_random_indices.py",
    "tests_integration/test_user_triton.py",
    "packages/capture/tests/kernels",
)
"""What runs with Triton's compiler in place of its interpreter."""
DTYPES = ("float32", "float16", "bfloat16")


def environment() -> dict[str, str]:
    """Of processes that this one starts."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TRITON_INTERPRET": "0"}


def tests(jobs: int) -> int:
    """Run the device's tests; how many files' worth failed: 0 or 1."""
    # What takes much of the device's memory is one group, which one process runs.
    how = ("-n", str(jobs), "--dist", "loadgroup")
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", *how, *TESTS]
    return int(subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode != 0)


def operators(jobs: int, every: int) -> int:
    """Run the operator database, forward and gradients; how many cells are not right."""
    with tempfile.TemporaryDirectory() as folder:
        cells = Path(folder) / "cells.jsonl"
        command = [sys.executable, "-m", "benchmarks", "--suite", "operators", "--device", "cuda", "--json", str(cells)]
        command += ["--jobs", str(jobs), "--every", str(every)]
        for dtype in DTYPES:
            command += ["--dtype", dtype]
        subprocess.run(command, cwd=ROOT, env=environment(), check=True)
        verdicts = [json.loads(line)["verdict"] for line in cells.read_text().splitlines()]
    return sum(verdict not in ("right", "eager raises") for verdict in verdicts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="the models' times")
    parser.add_argument("--jobs", type=int, default=8, help="processes of the tests and of the database")
    parser.add_argument("--every", type=int, default=1, help="one operator in so many")
    parser.add_argument("--only", choices=("models", "tests", "operators"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as metadata:
        sys.path.insert(0, str(ROOT))
        from benchmarks.checkout import as_installed

        sys.path[:0] = as_installed(Path(metadata))
        sys.exit(bool(run(options)))


def run(options: argparse.Namespace) -> int:
    """How much failed of what is asked for."""
    failures = models(options.json) if options.only in (None, "models") else 0
    failures += tests(options.jobs) if options.only in (None, "tests") else 0
    failures += operators(options.jobs, options.every) if options.only in (None, "operators") else 0
    return failures


def models(times: Path | None) -> int:
    """Compare models and time a step of each; how many failed."""
    import torch

    import capture

    if not torch.cuda.is_available():
        sys.exit("gpu_check needs a CUDA device")
    capture.config.on_error = "raise"
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CPython {sys.version.split()[0]}")
    rows, failures = [], 0
    for name, train, dtype in (
        ("mlp", False, "float32"),
        ("mlp", True, "float32"),
        ("mlp", False, "bfloat16"),
        ("mlp", True, "bfloat16"),
        ("bert_eager", False, "float32"),
        ("bert_sdpa", False, "float32"),
        ("bert_eager", True, "float32"),
        ("bert_sdpa", True, "float32"),
        ("bert_eager", False, "bfloat16"),
    ):
        try:
            row = check(name, train=train, dtype=dtype)
        except Exception as error:  # one failing model must not hide the others' results
            failures += 1
            print(f"FAILED {name} {'training' if train else 'inference'} {dtype}: {type(error).__name__}: {error}")
            import traceback

            traceback.print_exc(limit=-6)
            continue
        rows.append(row)
        print(
            f"ok {row['model']:12} {row['mode']:9} {row['dtype']:8} largest difference {row['difference']:.1e}, "
            f"{row['kernels']} kernels, first call {row['first_call_s']:.1f} s, "
            f"step {row['ours_ms']:.2f} ms for eager's {row['eager_ms']:.2f} ms"
        )
    if times:
        times.write_text(json.dumps(rows, indent=1))
    print(f"{len(rows)} models passed, {failures} failed")
    return failures


if __name__ == "__main__":
    main()
