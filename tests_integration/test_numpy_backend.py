"""The example of a device backend outside the packages (docs/examples/numpy_backend): found by its entry point, equal to eager."""

from __future__ import annotations

import itertools
import math
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch

from inductor import (
    PRIMITIVES,
    REDUCTIONS,
    DeviceBackend,
    Kernel,
    KernelArg,
    Options,
    ReferenceBackend,
    compile_graph,
    ops,
    record,
)

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "numpy_backend"


def installed(folder: Path, project: dict[str, Any]) -> None:
    """What an installer writes into a folder of `sys.path` about a distribution with this [project] table."""
    said = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    said.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
    (said / "METADATA").write_text("\n".join(lines) + "\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (said / "entry_points.txt").write_text("\n".join(groups))


def run(program: str, *folders: Path, **environment: str) -> str:
    """What a program prints, in a process of its own with these folders first on `sys.path`."""
    path = os.pathsep.join([*map(str, folders), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "INDUCTOR_DEVICE_BACKENDS": "", "PYTHONPATH": path, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


MODEL = """
import torch
import capture, meta

capture.config.on_error = "raise"
torch.manual_seed(0)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 8, padding_idx=3)
        self.first, self.norm, self.last = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 5)

    def forward(self, tokens, scale):
        hidden = self.norm(torch.nn.functional.silu(self.first(self.embedding(tokens))) * scale)
        return torch.softmax(self.last(hidden), -1).amax(1), hidden.argmax(-1)

model, tokens, scale = Model(), torch.randint(0, 11, (3, 7)), torch.rand(7, 1, requires_grad=True)

def results(function):
    model.zero_grad()
    scale.grad = None
    best, where = function(tokens, scale)
    best.square().sum().backward()
    return [best.detach(), where, scale.grad, *(p.grad.clone() for p in model.parameters())]

compiled = meta.compile(model, OPTIONS)
for got, want in zip(results(compiled), results(model), strict=True):
    torch.testing.assert_close(got, want)
try:
    with torch.no_grad():
        compiled(tokens + 11, scale)
except IndexError as error:
    print("refused:", error)
"""
PRINTED = """
import inductor
for path in inductor.cache_root().glob("**/kernels_cpu.*"):
    print(path.read_text())
"""


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A folder where the example counts as installed, beside cpu_codegen."""
    folder = tmp_path / "site"
    folder.mkdir()
    installed(folder, tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"])
    return folder


@pytest.mark.parametrize("way", ["environment", "options"])
def test_a_model_forward_and_backward(beside: Path, tmp_path: Path, way: str) -> None:
    options = 'options={"backends": {"cpu": "inductor-numpy"}}' if way == "options" else "dynamic=True"
    environment = {"INDUCTOR_DEVICE_BACKENDS": "cpu=inductor_numpy"} if way == "environment" else {}
    program = MODEL.replace("OPTIONS", options) + PRINTED
    text = run(program, beside, EXAMPLE / "src", INDUCTOR_CACHE_DIR=str(tmp_path / "cache"), **environment)
    assert "refused: index out of range in self" in text  # eager's: the frame starts again
    for line in ("np.exp(", "space.reduce(np.max", "space.position_of(np.argmax", "space.gather(", "space.add("):
        assert line in text
    assert "#include" not in text


def test_beside_another_it_has_to_be_named(beside: Path, tmp_path: Path) -> None:
    program = (
        "import torch, inductor\n"
        "try:\n    inductor.backend_for(torch.device('cpu'))\n"
        "except LookupError as error:\n    print(error)\n"
    )
    text = run(program, beside, EXAMPLE / "src")
    assert "installed by" in text and "cpu-codegen" in text and "inductor-numpy" in text and "Options(backends=" in text


def recipe() -> tuple[dict[str, Any], str]:
    """CONTRIBUTING's: the distribution's [project] table, and its module."""
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    section = re.search(r"^## A device backend$(.*?)^## ", text, re.M | re.S)
    assert section is not None
    (table,), (module,) = (re.findall(rf"```{kind}\n(.*?)```", section[1], re.S) for kind in ("toml", "python"))
    return tomllib.loads(table)["project"], module


def test_the_recipe_word_for_word(tmp_path: Path) -> None:
    project, module = recipe()
    installed(tmp_path, project)
    (tmp_path / "my_device.py").write_text(module)
    program = (
        "import torch, inductor, capture, meta\n"
        "capture.config.on_error = 'raise'\n"
        "x, y = torch.randn(4, 6), torch.randn(6, requires_grad=True)\n"
        "function = lambda x, y: (x.t()[::2] * y[::2, None] + x[:, 1], (x * y).sum(0))\n"
        "found, want = meta.compile(function, options={'backends': {'cpu': 'my-device'}})(x, y), function(x, y)\n"
        "torch.testing.assert_close(found, want)\n"
        "gradients = [torch.autograd.grad(a.sum() + b.sum(), y)[0] for a, b in (found, want)]\n"
        "torch.testing.assert_close(*gradients)\n"
    )
    text = run(program + PRINTED, tmp_path, INDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    assert "for i0 in range(" in text and "] = v" in text and " * v" in text


F32, I64 = torch.float32, torch.int64


@pytest.fixture(scope="module")
def backend() -> Iterator[Any]:
    sys.path.insert(0, str(EXAMPLE / "src"))
    try:
        from inductor_numpy import NumpyBackend  # type: ignore[import-not-found]

        yield NumpyBackend()
    finally:
        sys.path.remove(str(EXAMPLE / "src"))


def kernel_of(
    body: Callable[..., None], outer: list[int], inner: list[int], buffers: dict[str, tuple[Any, torch.dtype]]
) -> Kernel:
    names = [sympy.Symbol(f"i{k}", integer=True, nonnegative=True) for k in range(len(outer) + len(inner))]
    recorded = record(body, names[: len(outer)], names[len(outer) :], lambda name: buffers[name][1])
    args = tuple(KernelArg(name, role, dtype) for name, (role, dtype) in buffers.items())
    sizes = tuple(map(sympy.Integer, outer)), tuple(map(sympy.Integer, inner))
    return Kernel("kernel_0", torch.device("cpu"), *sizes, recorded, args, (), ("a test",))


def check(backend: Any, kernel: Kernel, *tensors: torch.Tensor, **tolerance: float) -> None:
    """Compare with the IR's interpreter."""
    results = []
    for each in (backend, ReferenceBackend()):
        source = each.emit(kernel)
        copies = [tensor.clone() for tensor in tensors]
        each.build(each.module_text([source]), [source])[kernel.name](*copies)
        results.append(copies)
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, equal_nan=True, **tolerance)


FLOATS = torch.tensor([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 7.25, 100.0, -1000.0, math.inf, -math.inf, math.nan])
INTEGERS = torch.tensor([1, 2, 3, 5, 7, 60, 100, 127])
VALUES = {
    torch.float32: FLOATS,
    torch.float64: FLOATS.double(),
    torch.int64: torch.cat([INTEGERS, -INTEGERS]),
    torch.int32: torch.cat([INTEGERS, -INTEGERS]).int(),
    torch.uint8: INTEGERS.byte(),
    torch.bool: torch.tensor([True, False]),
}


@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_primitives_are_the_interpreters(backend: Any, dtype: torch.dtype) -> None:
    """All pairs of values, through each primitive that is printed for the dtype."""
    pairs = torch.stack([torch.stack(pair) for pair in itertools.product(VALUES[dtype], repeat=2)]).T.contiguous()
    count, printed = pairs.shape[1], []
    for primitive in PRIMITIVES.values():
        result = primitive.result_dtype(dtype)

        def body(outer: Any, _: Any, primitive: Any = primitive) -> None:
            operands = [ops.load(name, outer[0]) for name in ("x", "y")[: primitive.arity]]
            ops.store("z", outer[0], getattr(ops, primitive.name)(*operands))

        kernel = kernel_of(body, [count], [], {"x": ("in", dtype), "y": ("in", dtype), "z": ("out", result)})
        if backend.supports(kernel):
            x, y = pairs
            if primitive.name in ("lshift", "rshift"):
                y = y.abs() % 8
            elif primitive.name == "pow":
                x = x.abs()
            check(backend, kernel, x, y, torch.zeros(count, dtype=result))
            printed.append(primitive.name)
    assert len(printed) > {torch.bool: 15}.get(dtype, 20), printed


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions_and_what_follows_them(backend: Any, kind: str) -> None:
    dtype = REDUCTIONS[kind].result or F32

    def body(outer: Any, inner: Any) -> None:
        found = ops.reduce(kind, ops.load("x", outer[0] * 12 + inner[0] * 4 + inner[1]))
        again = ops.reduce(kind, ops.load("w", inner[1]))  # the same for each point of the first inner loop
        ops.store("y", outer[0], found)
        ops.store("z", outer[0], again)

    buffers = {"x": ("in", F32), "w": ("in", F32), "y": ("out", dtype), "z": ("out", dtype)}
    kernel = kernel_of(body, [2], [3, 4], buffers)
    x, w = torch.randn(24).round(), torch.tensor([1.0, 3.0, math.nan, 2.0])
    check(backend, kernel, x, w, torch.zeros(2, dtype=dtype), torch.zeros(2, dtype=dtype))


def test_places_computed_masked_and_written_more_than_once(backend: Any) -> None:
    def body(outer: Any, inner: Any) -> None:
        at = ops.indirect(ops.load("at", outer[0]), 5)
        value = ops.load("x", at * 2 + outer[1])
        inside = ops.lt(ops.index_expr(outer[0], I64), ops.constant(2, I64))
        masked = ops.masked(inside, lambda: ops.load("x", outer[0] * 2 + outer[1] + 5), 7.0)
        ops.store("y", outer[0] * 2 + outer[1], ops.add(value, masked))
        ops.store("sums", at, value, "add")
        ops.store("last", outer[1], ops.load("x", outer[1]))

    kernel = kernel_of(
        body,
        [4, 2],
        [],
        {"at": ("in", I64), "x": ("in", F32), "y": ("out", F32), "sums": ("inout", F32), "last": ("out", F32)},
    )
    at, x = torch.tensor([4, -5, 4, 0]), torch.arange(10.0)
    check(backend, kernel, at, x, torch.zeros(8), torch.ones(5), torch.zeros(2))
    with pytest.raises(IndexError):
        check(backend, kernel, torch.tensor([0, 5, 0, 0]), x, torch.zeros(8), torch.ones(5), torch.zeros(2))


def test_what_numpy_lacks_is_not_printed(backend: Any) -> None:
    assert isinstance(backend, DeviceBackend)
    half = torch.bfloat16
    kernel = kernel_of(
        lambda o, i: ops.store("y", o[0], ops.load("x", o[0])), [3], [], {"x": ("in", half), "y": ("out", half)}
    )
    assert not backend.supports(kernel)
    graph = torch.fx.symbolic_trace(lambda x: (torch.ops.aten.sin.default(x),))
    x = torch.randn(4).bfloat16()
    for node in graph.graph.nodes:
        node.meta["val"] = x
    compiled = compile_graph(graph, [x], Options(cache=False), backends={"cpu": backend})
    assert torch.equal(compiled([x])[0], x.sin()) and compiled.stats.interpreted == 1
