"""Products of matrices by Triton kernels: results under Triton's interpreter, machine code, text, and which blocks are taken."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from inductor_apart import compiled_apart
from inductor_dynamic import trace_dynamic
from inductor_tracing import trace
from torch import Tensor
from torch.utils import _pytree as pytree

import inductor.lowerings.alignment
import inductor.rates
import inductor.rivals
from aotgrad import core_decompositions, trace_inference
from inductor import CompiledGraph, Options, compile_graph, lower, schedule
from inductor.device import Keep, Kernel, KernelCall, KernelSource
from inductor.parts import Parts
from inductor.regions import converted_for
from inductor.stored import files_of, parts_of
from symshapes import FakeMode

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("runs under Triton's interpreter", allow_module_level=True)
from inductor.triton import TritonBackend
from inductor.triton.choices import Choices
from inductor.triton.forms import only_blocks, printed
from inductor.triton.product import product_of
from inductor.triton.product_tuning import ProductTunings
from inductor.triton.tilings import Tiling, suitable
from inductor.triton.tuning import Group, Runner, Tuner

OWN = Options(cache=False, autotune=False)


def normal(*size: int, dtype: torch.dtype = torch.float16) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(sum(size))).to(dtype)


def brain(*size: int) -> Tensor:
    return normal(*size, dtype=torch.bfloat16)


def single(*size: int) -> Tensor:
    return normal(*size, dtype=torch.float32)


def kernels_of(fn: Callable[..., Any], *inputs: Tensor) -> list[Kernel]:
    graph, _ = trace(fn, *inputs)
    backend = TritonBackend("cpu")
    return list(
        schedule(lower(graph, inputs, OWN, lambda device: backend.traits), OWN, traits=lambda _: backend.traits).kernels
    )


PROGRAMS: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "plain": (lambda a, b: a @ b, [normal(64, 32), normal(32, 48)]),
    "odd sizes": (lambda a, b: a @ b, [normal(33, 45), normal(45, 37)]),
    "odd sizes of bfloat16": (lambda a, b: a @ b, [brain(70, 130), brain(130, 35)]),
    "bias and GELU of bfloat16": (
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        [brain(2, 30, 40), brain(50, 40), brain(50)],
    ),
    "float32": (lambda a, b: a @ b, [single(50, 70), single(70, 40)]),
    "fewer than a block": (lambda a, b: a @ b, [normal(3, 5), normal(5, 7)]),
    "transposed left": (lambda a, b: a.t() @ b, [normal(40, 33), normal(40, 50)]),
    "transposed right": (lambda a, b: a @ b.t(), [normal(33, 40), normal(50, 40)]),
    "every second row and column": (lambda a, b: a[::2] @ b[:, ::2], [normal(66, 40), normal(40, 70)]),
    "from the middle": (lambda a, b: a[3:, 5:] @ b[5:], [normal(43, 40), normal(40, 70)]),
    "batches": (lambda a, b: torch.bmm(a, b), [normal(3, 33, 40), normal(3, 40, 35)]),
    "batches and heads": (lambda q, k: q @ k.transpose(-1, -2), [normal(2, 3, 20, 16), normal(2, 3, 24, 16)]),
    "one matrix for all batches": (lambda a, b: torch.bmm(a, b.expand(3, -1, -1)), [normal(3, 33, 40), normal(40, 35)]),
    "bias and GELU": (lambda x, w, b: F.gelu(F.linear(x, w, b)), [normal(2, 30, 40), normal(50, 40), normal(50)]),
    "residual": (lambda x, w, r: x @ w + r, [normal(40, 33), normal(33, 45), normal(40, 45)]),
    "scaled sum": (
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
        [normal(40, 45), normal(40, 33), normal(33, 45)],
    ),
    "scaled sum of batches": (
        lambda c, a, b: torch.baddbmm(c, a, b, beta=2, alpha=0.5),
        [normal(2, 40, 45), normal(2, 40, 33), normal(2, 33, 45)],
    ),
    "gate": (lambda x, w, g: F.silu(x @ w) * g, [normal(40, 33), normal(33, 45), normal(40, 45)]),
    "one value a row": (lambda x, w, s: (x @ w) * s, [normal(40, 33), normal(33, 45), normal(40, 1)]),
    "one value": (lambda x, w, s: (x @ w).float() * s, [normal(40, 33), normal(33, 45), single(1)]),
    "several results": (lambda x, w: ((y := x @ w), y.float() + 1, torch.relu(y)), [normal(40, 33), normal(33, 45)]),
    "rows chosen": (
        lambda x, w, t, i: x @ w + t[i][:, None],
        [normal(40, 33), normal(33, 45), normal(9), torch.arange(40) % 9],
    ),
    "a triangle": (lambda x, w: torch.tril(x @ w), [normal(40, 33), normal(33, 45)]),
    "few results of many steps": (lambda a, b: torch.relu(a.t() @ b), [normal(2048, 20), normal(2048, 33)]),
    "weights of int8": (
        lambda x, w, s: F.linear(x, w.to(x.dtype)) * s,
        [brain(40, 33), torch.arange(45 * 33).view(45, 33).to(torch.int8), brain(45)],
    ),
    "weights of uint8 by columns": (
        lambda x, w: x @ w.to(x.dtype),
        [normal(40, 33), (torch.arange(990) % 256).view(33, 30).to(torch.uint8)],
    ),
    "halves as float32": (lambda x, w: x.to(w.dtype) @ w, [normal(40, 64), single(64, 45)]),
    "one after the other": (lambda x, v, w: torch.relu(x @ v) @ w, [normal(40, 33), normal(33, 45), normal(45, 20)]),
}


def of_double(fn: Callable[..., Any], inputs: Sequence[Tensor]) -> list[Tensor]:
    """The results, as they were if nothing was rounded on the way."""
    return trace(fn, *(x.double() if x.is_floating_point() else x for x in inputs))[1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_as_accurate_as_eagers(name: str) -> None:
    fn, inputs = PROGRAMS[name]
    graph, expected = trace(fn, *inputs)
    compiled = compile_graph(graph, inputs, OWN, backends={"cpu": TritonBackend("cpu")})
    assert compiled.stats.externs == compiled.stats.interpreted == 0
    assert "library.dot" in compiled.kernel_source
    for found, eager, exact in zip(compiled(list(inputs)), expected, of_double(fn, inputs), strict=True):
        assert (found.dtype, found.stride()) == (eager.dtype, eager.stride())
        # The interpreter cuts bfloat16 off where a GPU rounds.
        slack = torch.finfo(found.dtype).eps * exact.abs().max() * (2 if found.dtype is torch.bfloat16 else 0.25)
        assert (found - exact).abs().max() <= (eager - exact).abs().max() + slack


@pytest.mark.parametrize(
    "tiling", [Tiling(16, 32, 16, 4, 2), Tiling(64, 16, 32, 4, 2), Tiling(32, 64, 64, 4, 3)], ids=str
)
@pytest.mark.parametrize("size", [(64, 64, 64), (65, 63, 31), (200, 40, 100)], ids=str)
def test_all_blocks_give_the_same(tiling: Tiling, size: tuple[int, int, int]) -> None:
    rows, columns, depth = size
    a, b, bias = normal(rows, depth), normal(depth, columns), normal(columns)
    (kernel,) = kernels_of(lambda a, b, c: torch.relu(a @ b + c), a, b, bias)
    source, out, backend = printed(kernel, tiling), torch.empty(rows, columns).half(), TritonBackend("cpu")
    backend.build(backend.module_text([source]), [source])[kernel.name](a, b, bias, out)
    wanted = torch.relu(a @ b + bias)
    torch.testing.assert_close(out, wanted, atol=0.02, rtol=0.002)


MISALIGNED: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "odd columns": (lambda x, w: F.linear(x, w), [normal(128, 40), normal(77, 40)]),
    "factor in rows": (lambda x, w: x @ w, [normal(128, 40), normal(40, 77)]),
    "fewer rows than blocks": (
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        [normal(121, 40), normal(91, 40), normal(91)],
    ),
    "every second vector": (lambda x, w: F.linear(x, w), [normal(128, 33), normal(60, 33)]),
    "several results": (
        lambda x, w, r: ((y := x @ w), y.float() + r),
        [normal(128, 32), normal(32, 45), normal(128, 45)],
    ),
    "batches": (lambda x, w: torch.bmm(x, w), [normal(2, 128, 32), normal(2, 32, 40)[..., :37]]),
    "fewer columns than a vector": (lambda x, w: F.linear(x, w), [normal(128, 32), normal(5, 32)]),
}


@pytest.mark.parametrize("name", MISALIGNED)
def test_rows_that_begin_alike_are_written_by_vectors(name: str) -> None:
    """Results whose rows begin where no vector does: elements within, at the borders and beyond the last row."""
    fn, inputs = MISALIGNED[name]
    (kernel,) = kernels_of(fn, *inputs)
    source = printed(kernel, Tiling(16, 16, 32, 4, 3))
    blocks = only_blocks(source)
    assert blocks is not None and blocks.apart == 8
    assert source.text.count("if inside:") == source.text.count("tl.multiple_of(")
    expected = list(pytree.tree_leaves(fn(*inputs)))
    results = [arg.name for arg in kernel.args if arg.role == "out"]
    found = dict(zip([arg.name for arg in kernel.args if arg.role == "in"], inputs, strict=True))
    found |= {name: torch.full_like(like, 7) for name, like in zip(results, expected, strict=True)}
    backend = TritonBackend("cpu")
    backend.build(backend.module_text([source]), [source])[kernel.name](*(found[arg.name] for arg in kernel.args))
    for name, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(found[name], wanted, atol=0.03, rtol=0.005)


def test_rows_stay_together_where_blocks_of_those_alike_would_be_empty() -> None:
    for rows, columns, apart in ((2048, 501, 8), (2048, 504, 1), (200, 501, 1), (1024, 45, 8)):
        inputs = torch.empty(rows, 32).half(), torch.empty(32, columns).half()
        (kernel,) = kernels_of(lambda a, b: a @ b, *inputs)
        blocks = only_blocks(printed(kernel, Tiling(128, 64, 32, 4, 3)))
        assert blocks is not None and blocks.apart == apart


def test_text(golden: Callable[[str, str], None]) -> None:
    (kernel,) = kernels_of(
        lambda x, w, b, r: F.silu(F.linear(x, w, b)) + r, normal(70, 64), normal(48, 64), normal(48), normal(70, 48)
    )
    golden("product", printed(kernel, Tiling(32, 16, 32, 4, 3)).text)


def compiled_of(fn: Callable[..., Any], inputs: Sequence[Tensor], options: Options) -> CompiledGraph:
    with torch.no_grad():
        traced = trace_inference(fn, inputs, core_decompositions())
    fakes = [node.meta["val"] for node in traced.module.graph.find_nodes(op="placeholder")]
    return compile_graph(traced.module, fakes, options, backends={"cpu": TritonBackend("cpu")})


def test_by_default_the_library_multiplies() -> None:
    inputs = [normal(40, 32), normal(32, 48)]
    assert compiled_of(lambda a, b: (a @ b,), inputs, Options()).stats.externs == 1
    # What users write as a sum of products is no product of the library's.
    one, other = single(40, 50), single(60, 50)
    found = compiled_of(lambda a, b: ((a[:, None] * b).sum(-1),), [one, other], Options())
    assert found.stats.externs == 0
    assert "library.dot" not in found.kernel_source, "blocks that nobody timed"
    torch.testing.assert_close(found([one, other])[0], one @ other.t())


@pytest.mark.parametrize("precision, function", [("highest", "library.dot("), ("high", "library.short_dot(")])
def test_float32_is_multiplied_as_the_program_allows(precision: str, function: str) -> None:
    """But for sums of products that users write."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        inputs = [single(50, 70), single(70, 40)]
        compiled = compiled_of(lambda a, b: (torch.relu(a @ b),), inputs, OWN)
        written = compiled_of(lambda a, b: ((a[:, :, None] * b).sum(1),), inputs, OWN)
    finally:
        torch.set_float32_matmul_precision(before)
    assert function in compiled.kernel_source and "library.dot(" in written.kernel_source
    torch.testing.assert_close(compiled(list(inputs))[0], torch.relu(inputs[0] @ inputs[1]))


def test_what_was_not_timed_is_left_to_the_library() -> None:
    """Sizes that are not known."""
    inputs = [normal(40, 33), normal(33, 45)]
    graph, fakes = trace_dynamic(lambda a, b: (a @ b,), *inputs)
    compiled = compile_graph(graph, fakes, OWN, backends={"cpu": TritonBackend("cpu")})
    assert compiled.stats.externs == 1
    (found,) = compiled([*inputs, 40, 33, 45][: len(fakes)])
    torch.testing.assert_close(found, inputs[0] @ inputs[1])


def test_one_row_reads_weights_as_they_lie() -> None:
    """Of int8, by default too, in one kernel with what is made of the result."""
    x, w, s = brain(1, 128), torch.arange(50 * 128).view(50, 128).to(torch.int8), brain(50)
    found = compiled_of(lambda x, w, s: (torch.relu(F.linear(x, w.to(x.dtype)) * s),), [x, w, s], Options())
    assert (found.stats.externs, found.stats.launches) == (0, 1)
    exact = torch.relu(x.double() @ w.double().t() * s.double())
    torch.testing.assert_close(found([x, w, s])[0].double(), exact, atol=0, rtol=0.02)


def test_a_region_begins_with_conversions() -> None:
    """What a kernel of the compiler's own would do on the way is timed with it, and with the library's kernel."""
    inputs = [normal(40, 33), torch.arange(45 * 33).view(45, 33).to(torch.int8)]
    graph, _ = trace(lambda x, w: F.linear(x, w.to(x.dtype)), *inputs)
    (node,) = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default)
    traits = TritonBackend("cpu").traits
    begins = [str(one.target) for one in converted_for(node, lambda device: traits)]
    assert begins == ["aten._to_copy.default", "aten.permute.default"]
    assert converted_for(node, lambda device: replace(traits, converts_factors=False)) == []


@pytest.mark.parametrize("library, externs", [(0.99, 1), (1.01, 0)])
def test_whatever_is_faster_is_taken(library: float, externs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inductor.rivals, "timed", lambda calls, inputs: [1.0, library])
    inputs = [normal(40, 33), normal(33, 45)]
    found = compiled_of(lambda a, b: (torch.relu(a @ b),), inputs, Options(autotune=True, cache=False))
    assert (found.stats.externs, found.stats.launches) == (externs, 1)
    torch.testing.assert_close(found(list(inputs))[0], torch.relu(inputs[0] @ inputs[1]), atol=0.01, rtol=0.01)


def test_what_is_left_to_the_library_is_padded_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inductor.rivals, "timed", lambda calls, inputs: [1.0, 0.5])
    monkeypatch.setattr(inductor.lowerings.alignment, "LARGE", 0)
    inputs = [normal(33, 257), normal(257, 35)]
    found = compiled_of(lambda a, b: (a @ b,), inputs, Options(autotune=True, cache=False))
    # The factors are copied into rows that are multiples of 16 bytes, and the result out of such.
    assert (found.stats.externs, found.stats.launches) == (1, 3)
    torch.testing.assert_close(found(list(inputs))[0], inputs[0] @ inputs[1], atol=0.05, rtol=0.01)


def test_what_leaves_in_misaligned_rows_is_no_product_of_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default: a vocabulary. What another product reads of it, and other products, are."""
    alignment = inductor.lowerings.alignment
    for name in ("LARGE", "DEEP", "MANY", "SMALL"):
        monkeypatch.setattr(alignment, name, 0)
    x, w, v = normal(2, 64, 64), normal(77, 64), normal(77, 80)

    def program(x: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        y = F.linear(x, w)
        return y, y @ v

    found = compiled_of(program, [x, w, v], Options(cache=False))
    assert found.stats.externs == 1 and found.kernel_source.count("library.dot") == 1
    for one, wanted in zip(found([x, w, v]), program(x, w, v), strict=True):
        assert one.stride() == wanted.stride()
        torch.testing.assert_close(one, wanted, atol=0.5, rtol=0.01)
    for fn in (lambda x, w, v: (F.linear(x, w).float().exp().sum(-1),), lambda x, w, v: (F.linear(x, w[:72]),)):
        assert compiled_of(fn, [x, w, v], Options(cache=False)).stats.externs == 1
    with monkeypatch.context() as patch:
        patch.setattr(alignment, "MANY", 512)
        assert compiled_of(lambda x, w, v: (F.linear(x, w),), [x, w, v], Options(cache=False)).stats.externs == 1


def _layer(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    """A layer's result, and the gradients of its input and its weight."""
    y = F.linear(x, w, b)
    g = y.detach() - 1
    return y, g @ w, g.t() @ x


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_small_products_on_misaligned_rows_are_no_library_calls(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, forward and backward: it takes longer to ask the library. Nothing is timed for it."""
    monkeypatch.setattr(inductor.rates, "timed", None)
    monkeypatch.setattr(inductor.rivals, "timed", None)
    x, w, b = normal(160, 64, dtype=dtype), normal(20, 64, dtype=dtype), normal(20, dtype=dtype)
    found = compiled_of(_layer, [x, w, b], Options(cache=False))
    assert found.stats.externs == 0 and found.kernel_source.count("library.dot") == 3
    given = [x.double(), w.double(), b.double()]
    for one, eager, exact in zip(found([x, w, b]), _layer(x, w, b), _layer(*given), strict=True):
        assert (one.dtype, one.stride()) == (eager.dtype, eager.stride())
        # The gradients start from a result that was rounded.
        assert (one - exact).norm() <= 2 * (eager - exact).norm() + torch.finfo(dtype).eps * exact.norm()


NOT_SMALL_OR_ALIGNED: dict[str, tuple[Callable[..., Any], list[Tensor], dict[str, int]]] = {
    "rows that begin well": (lambda a, b: (a @ b,), [normal(33, 40), normal(40, 24)], {}),
    "columns that do": (lambda a, b: (a.t() @ b.t(),), [normal(40, 32), normal(24, 40)], {}),
    "many multiplications": (lambda a, b: (a @ b,), [normal(33, 40), normal(40, 20)], {"SMALL": 33 * 40 * 20 - 1}),
    "many elements": (lambda a, b: (a @ b,), [normal(33, 40), normal(40, 20)], {"FEW": 33 * 60 + 40 * 20 - 1}),
    "one step": (lambda a, b: (a @ b,), [normal(33, 1), normal(1, 20)], {}),
    "other dtypes": (lambda a, b: (a @ b,), [single(33, 40), single(40, 20)], {}),
    "batches": (lambda a, b: (torch.bmm(a, b),), [normal(2, 33, 40), normal(2, 40, 20)], {}),
}


@pytest.mark.parametrize("name", NOT_SMALL_OR_ALIGNED)
def test_other_products_stay_the_librarys(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fn, inputs, bounds = NOT_SMALL_OR_ALIGNED[name]
    for bound, value in bounds.items():
        monkeypatch.setattr(inductor.lowerings.alignment, bound, value)
    assert compiled_of(fn, inputs, Options(cache=False)).stats.externs == 1


def test_what_stands_beside_small_products_is_as_without_them() -> None:
    """Other products and convolutions are the library's, those with one row sums over the matrix's rows."""
    a, b, v, w = normal(33, 40), normal(40, 20), normal(1, 128), normal(48, 128)
    image, taps, bias = normal(1, 3, 8, 8), normal(16, 3, 3, 3), normal(16)

    def others(v: Tensor, w: Tensor, image: Tensor, taps: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        return v @ w.t(), w @ w.t(), torch.relu(F.conv2d(image, taps, bias))

    alone = compiled_of(others, [v, w, image, taps, bias], Options(cache=False))

    def beside(a: Tensor, b: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        return a @ b, *others(*rest)

    found = compiled_of(beside, [a, b, v, w, image, taps, bias], Options(cache=False))
    assert (found.stats.externs, found.stats.launches) == (alone.stats.externs, alone.stats.launches + 1)
    for made in (alone, found):  # its bias is the next kernel's to add
        (call,) = (line for line in made.source.splitlines() if "_convolution(" in line)
        assert ", None, " in call, call
    wanted = beside(*(t.double() for t in (a, b, v, w, image, taps, bias)))
    for one, exact in zip(found([a, b, v, w, image, taps, bias]), wanted, strict=True):
        torch.testing.assert_close(one.double(), exact, atol=0.1, rtol=0.01)


def test_what_is_not_tried_has_warps_enough() -> None:
    """One that multiplies 16 rows by 16 columns takes long to compile."""
    (kernel,) = kernels_of(lambda a, b: (a.t() @ b,), normal(1280, 12), normal(1280, 12))
    product = product_of(kernel)
    assert product is not None and suitable(kernel, product)[0].warps == 1
    assert Tiling(*printed(kernel).settings) == suitable(kernel, product)[0]._replace(warps=4)


def test_small_products_of_few_steps_are_one_launch() -> None:
    """The sum of parts would be a second one."""
    for steps, launches in ((1280, 1), (2048, 2)):
        g, x = normal(steps, 20), normal(steps, 64)
        assert compiled_of(lambda g, x: (g.t() @ x,), [g, x], Options(cache=False)).stats.launches == launches


def test_kernels_are_timed_on_real_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that no region of the graph has, and while the program's tensors are none."""
    monkeypatch.setattr(inductor.rivals, "timed", lambda calls, inputs: [1.0, 2.0])
    made: list[type] = []

    class Backend(TritonBackend):
        def fastest_products(self, sources: Sequence[KernelSource], keep: Keep) -> Sequence[KernelSource]:
            made.append(type(torch.empty(1)))
            return super().fastest_products(sources, keep)

    inputs = [normal(40, 33), normal(33, 45)]
    graph, _ = trace(lambda a, b: (a @ b,), *inputs)
    with FakeMode():
        compile_graph(graph, inputs, Options(autotune=True, cache=False), backends={"cpu": Backend("cpu")})
    assert set(made) == {Tensor} and len(made) > 1


def test_a_product_is_not_timed_again_when_it_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a graph's other kernels forms are."""
    monkeypatch.setattr(inductor.rivals, "timed", lambda calls, inputs: [1.0, 2.0])
    timed: list[str] = []
    begin = Group.tuner

    def tuner(self: Group, choices: Choices, text: str, runner: Runner) -> Tuner:
        timed.append(text)
        return begin(self, choices, text, runner)

    monkeypatch.setattr(Group, "tuner", tuner)
    inputs = [normal(40, 33), normal(33, 45)]
    compiled = compiled_of(lambda a, b: (a @ b, (a.float() - 1).sum(0)), inputs, Options(autotune=True, cache=False))
    product, total = compiled(list(inputs))
    assert compiled.kernel_source.count("library.dot") == 1
    assert len(timed) == 1 and "library.dot" not in timed[0]
    torch.testing.assert_close(product, inputs[0] @ inputs[1], atol=0.01, rtol=0.01)
    torch.testing.assert_close(total, (inputs[0].float() - 1).sum(0))


def test_products_have_launches_of_their_own() -> None:
    """Others that could run beside them are put together."""
    inputs = [normal(40, 33), normal(33, 45), *(normal(40, 40 + at) for at in range(5))]
    compiled = compiled_of(lambda a, b, *rest: (a @ b, b.t() @ a.t(), *(x + 1 for x in rest)), inputs, OWN)
    assert compiled.stats.launches == 3 and compiled.kernel_source.count("library.dot") == 2
    one, two, *others = compiled(list(inputs))
    torch.testing.assert_close(one, inputs[0] @ inputs[1], atol=0.01, rtol=0.01)
    torch.testing.assert_close(two, one.t(), atol=0.01, rtol=0.01)
    assert all(torch.equal(found, given + 1) for found, given in zip(others, inputs[2:], strict=True))


def test_a_stored_graph_has_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Parts] = []
    init = CompiledGraph.__init__

    def noted(self: CompiledGraph, parts: Parts, *rest: Any) -> None:
        made.append(parts)
        init(self, parts, *rest)

    monkeypatch.setattr(CompiledGraph, "__init__", noted)
    compiled_of(lambda a, b: (a @ b,), [normal(40, 33), normal(33, 45)], OWN)
    read = parts_of(files_of(made[0]))
    assert read is not None and read.modules == made[0].modules and read.modules[0].sources[0].settings


def tilings_of(*sizes: int, dtype: torch.dtype = torch.float16) -> list[Tiling]:
    rows, columns, depth = sizes
    with FakeMode():  # many processors take minutes for so large a product of halves
        a, b = (torch.empty(size, dtype=dtype) for size in ((rows, depth), (depth, columns)))
        kernel = kernels_of(lambda a, b: a @ b, a, b)[0]
    product = product_of(kernel)
    assert product is not None
    return suitable(kernel, product)


def test_blocks_suit_sizes() -> None:
    large = tilings_of(4096, 4096, 4096)
    assert (large[0].rows, large[0].columns) == (128, 256)
    assert len(large) > 3
    assert all(tiling.rows <= 16 for tiling in tilings_of(5, 4096, 4096))
    assert all(tiling.depth == 16 for tiling in tilings_of(4096, 4096, 9))
    for tilings in (large, tilings_of(1000, 1000, 1000), tilings_of(512, 512, 512, dtype=torch.float32)):
        assert len(set(tilings)) == len(tilings)


def test_the_fastest_blocks_are_taken_and_remembered() -> None:
    """What runs is what was the fastest when timed, and is timed once, whatever the kernel is called."""
    calls, keys = [], []

    def make_call(choices: Choices) -> KernelCall:
        (blocks,) = choices.blocks
        if blocks.x == 64:
            return refused
        calls.append(blocks)
        return lambda *tensors: time.sleep(0 if (blocks.x, blocks.r) == (128, 64) else 0.003)

    def refused(*tensors: Tensor) -> None:
        raise RuntimeError("it needs more shared memory than there is")

    def keep(key: str, count: int, measure: Callable[[], Sequence[float] | None]) -> Sequence[float] | None:
        keys.append(key)
        found = measure()
        assert found is not None and len(found) == count and all(0 < seconds for seconds in found)
        return found

    finished: list[int] = []
    tunings = ProductTunings(lambda text, name: None, lambda device: make_call, lambda: finished.append(len(calls)))
    inputs = normal(1000, 20), normal(20, 600)
    (kernel,) = kernels_of(lambda a, b: a @ b, *inputs)
    (other,) = kernels_of(lambda x, y: torch.mm(x, y), *inputs)
    (softmax,) = kernels_of(lambda x: torch.softmax(x.float(), 1), inputs[0])
    state = torch.get_rng_state()
    sources = [printed(one) for one in (kernel, softmax)]
    tunings.begin(sources, lambda key, count, measure: measure(), {})
    begun = len(calls)
    best, unchanged = tunings.fastest(sources, keep, {})
    assert finished == [len(calls)] == [begun]  # nothing is compiled while kernels are timed, and nothing twice
    assert torch.equal(torch.get_rng_state(), state)
    assert best.settings[:2] == (128, 64) and len(calls) > 1 and len(keys) == 1
    assert unchanged is sources[1]
    again = tunings.fastest([printed(replace(other, name="another"))], keep, {})[0]
    assert again.settings == best.settings and len(keys) == 1
    assert again.text.count("def another(") == 1
    small = ProductTunings(lambda text, name: None, lambda device: lambda choices: refused, lambda: None)
    (any_reduction,) = small.fastest(sources[:1], keep, {"device": "too small"})
    assert any_reduction.settings == () and "tl.sum(" in any_reduction.text
    keys.clear()
    tunings.fastest(sources, keep, {"device": "another"})
    assert len(keys) == 1


def test_kernels_compile_for_sm_90_without_a_gpu(tmp_path: Path) -> None:
    """By warp groups' instructions where blocks are large enough, by warps' where not; of several layouts and ends."""
    program = """
import torch, torch.nn.functional as F, aotgrad, triton
from inductor import Options
from inductor.api import lowered
from inductor.backends import Devices
from inductor.triton import TritonBackend, compile_ahead
from inductor.triton.choices import Choices
from inductor.triton.forms import printed
from symshapes import FakeMode
backends, mode = {"cuda": TritonBackend()}, FakeMode()
ptx, compile = [], triton.compile
def noted(*args, **kwargs):
    made = compile(*args, **kwargs)
    ptx.append(made.asm["ptx"])
    return made
triton.compile = noted
def check(program, dtype, sizes, tiling):
    with mode, torch.no_grad():
        fakes = [torch.empty(size, dtype=dtype, device="cuda") for size in sizes]
    with torch.no_grad():
        traced = aotgrad.trace_inference(program, fakes, aotgrad.core_decompositions())
    (kernel,) = lowered(traced.module, traced.inputs, Options(autotune=False), Devices(backends)).kernels
    cubin = compile_ahead(printed(kernel, tiling))
    print(cubin[:4], *(part in ptx[-1] for part in ("wgmma.mma_async", "mma.sync")))
layer = lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r
sizes = ((512, 256), (384, 256), (384,), (512, 384))
check(layer, torch.bfloat16, sizes, (128, 128, 64, 4, 3))
check(layer, torch.float16, ((500, 250), (390, 250), (390,), (500, 390)), (64, 64, 64, 4, 3))
check(lambda a, b: torch.bmm(a, b), torch.bfloat16, ((4, 64, 128), (4, 128, 64)), (32, 32, 64, 4, 3))
check(lambda a, b: a.t() @ b, torch.float32, ((64, 128), (64, 64)), (64, 64, 16, 4, 3))
torch.set_float32_matmul_precision("high")
check(lambda a, b: a @ b.t(), torch.float32, ((128, 64), (64, 64)), (64, 64, 32, 4, 3))
"""
    expected = ["True False", "True False", "False True", "False False", "True False"]
    compiled_apart(program, tmp_path, [f"b'\\x7fELF' {line}" for line in expected])


def test_misaligned_rows_are_written_by_vectors_of_sixteen_bytes(tmp_path: Path) -> None:
    program = """
import torch, aotgrad, triton
from triton.backends.compiler import GPUTarget
from inductor import Options
from inductor.api import lowered
from inductor.backends import Devices
from inductor.triton import TritonBackend
from inductor.triton.building import make_function
from inductor.triton.forms import only_blocks, printed
from inductor.triton.signature import source_of
from inductor.triton.tilings import Tiling
from symshapes import FakeMode
backends, mode = {"cuda": TritonBackend()}, FakeMode()
with mode, torch.no_grad():
    fakes = [torch.empty(size, dtype=torch.float16, device="cuda") for size in ((1024, 64), (77, 64))]
with torch.no_grad():
    traced = aotgrad.trace_inference(lambda x, w: torch.nn.functional.linear(x, w), fakes, aotgrad.core_decompositions())
(kernel,) = lowered(traced.module, traced.inputs, Options(autotune=False), Devices(backends)).kernels
source = printed(kernel, Tiling(64, 64, 64, 4, 3))
blocks = only_blocks(source)
ast = source_of(make_function(source.text, kernel.name), kernel, blocks, bytes([255]), narrow=False)
ptx = triton.compile(ast, target=GPUTarget("cuda", 90, 32), options=blocks.options).asm["ptx"]
print("st.global.v4.b32" in ptx)
"""
    compiled_apart(program, tmp_path, ["True"])
