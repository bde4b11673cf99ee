"""CONTRIBUTING's recipe for a primitive, carried out word for word: recorded, interpreted, printed, parsed, stored, lowered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from cpu_codegen import CpuBackend
from cpu_codegen.operations import CPP, CPP_REDUCTIONS, CppReduction
from inductor import PRIMITIVES, REDUCTIONS, Reduction, compile_graph, load_stored, ops, parse_body
from inductor.ir.scalar import Scalar, prim
from inductor.lowerings.registry import LOWERINGS, pointwise
from inductor.triton import TritonBackend
from inductor.triton.expressions import TRITON, TRITON_REDUCTIONS

F32 = torch.float32
BUFFERS = {"x": ("in", F32), "y": ("out", F32)}


def _recipe() -> str:
    text = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()
    section = re.search(r"^## A primitive$(.*?)^## ", text, re.M | re.S)
    assert section is not None
    (code,) = re.findall(r"```python\n(.*?)```", section[1], re.S)
    return code


@pytest.fixture
def followed() -> Iterator[None]:
    """The recipe's rows are there for one test."""
    tables = [PRIMITIVES, CPP, TRITON, LOWERINGS]
    before = [dict(table) for table in tables]
    exec(_recipe(), {})
    yield
    for table, rows in zip(tables, before, strict=True):
        table.clear()
        table.update(rows)


def test_printers_have_rows_of_primitives_alone():
    assert CPP.keys() == TRITON.keys() == PRIMITIVES.keys()
    assert CPP_REDUCTIONS.keys() == TRITON_REDUCTIONS.keys() == REDUCTIONS.keys()


def fractions(outer, inner):
    ops.store("y", outer[0], ops.frac(ops.load("x", outer[0])))


def test_before(case):
    with pytest.raises(AttributeError, match="no primitive operation is named 'frac'"):
        case("fractions", fractions, [100], [], BUFFERS)


def test_a_kernel_of_it(followed, case, compiled, isa):
    fraction = case("fractions", fractions, [100], [], BUFFERS)
    body = fraction.kernel.body
    assert "tmp1: float32 = frac(tmp0)" in str(body)
    assert parse_body(str(body)) == body
    memory = {"x": torch.linspace(-3, 3, 100), "y": torch.empty(100)}
    expected = torch.frac(memory["x"])
    assert torch.equal(fraction.expected(memory)["y"], expected)
    assert torch.equal(fraction.call(compiled([fraction]), memory)["y"], expected)
    triton = TritonBackend("cpu")
    assert triton.supports(fraction.kernel)
    assert "v1 = v0 - libdevice.trunc(v0)\n" in triton.emit(fraction.kernel).text


def test_what_has_no_text_is_not_printed(followed, case):
    of_integers = case("fractions", fractions, [100], [], {"x": ("in", torch.int32), "y": ("out", torch.int32)})
    assert not CpuBackend().supports(of_integers.kernel)
    assert not TritonBackend("cpu").supports(of_integers.kernel)


@pytest.mark.parametrize(("outer", "inner"), [([3], [50]), ([], [1 << 17]), ([64], [9])], ids=str)
def test_a_reduction_is_a_row_of_each_table(case, compiled, monkeypatch, outer, inner):
    """The largest size: told by one row what it is, by another how it is written."""
    row = Reduction("size", "largest |x|", lambda x, _: x.abs().amax(-1), discrete=True)
    monkeypatch.setitem(REDUCTIONS, "size", row)
    count = inner[0]

    def sizes(o, r):
        at = o[0] if o else 0
        ops.store("y", at, ops.reduce("size", ops.load("x", at * count + r[0])))

    made = case("sizes", sizes, outer, inner, BUFFERS)
    assert not CpuBackend().supports(made.kernel) and not TritonBackend("cpu").supports(made.kernel)
    accumulator = CPP_REDUCTIONS["max"]
    monkeypatch.setitem(
        CPP_REDUCTIONS, "size", CppReduction(accumulator.vector, accumulator.scalar, value="abs({0})", merge="{0}")
    )
    memory = {"x": torch.randn(count * (outer or [1])[0]), "y": torch.empty((outer or [1])[0])}
    assert torch.equal(made.call(compiled([made]), memory)["y"], made.expected(memory)["y"])
    assert parse_body(str(made.kernel.body)) == made.kernel.body


def test_a_lowering_with_it(followed, tmp_path, monkeypatch):
    monkeypatch.setenv("INDUCTOR_CACHE_DIR", str(tmp_path))

    @pointwise("frac")
    def frac(self: Scalar) -> Scalar:
        return prim.frac(self)

    graph = torch.fx.Graph()
    x, real = graph.placeholder("x"), torch.linspace(-3, 3, 100)
    y = graph.call_function(torch.ops.aten.frac.default, (x,))
    graph.output((y,))
    x.meta["val"], y.meta["val"] = real, torch.frac(real)
    made = compile_graph(torch.fx.GraphModule({}, graph), [real])
    assert "v0 - trunc(v0)" in made.kernel_source
    assert torch.equal(made([real])[0], torch.frac(real))
    assert made.wrapper_path is not None
    assert torch.equal(load_stored(made.wrapper_path.parent)([real])[0], torch.frac(real))
