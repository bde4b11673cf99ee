"""The generated wrapper: what it looks like, and that it runs by itself."""

import gc
import os
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from inductor_schedules import check_schedule, run, scheduled
from inductor_tracing import trace
from torch import fx

from inductor import (
    Buffer,
    CompiledGraph,
    InterpretedWarning,
    LoopOp,
    Options,
    Program,
    ReferenceBackend,
    StridedView,
    compile_graph,
    lower,
    ops,
    record,
    register_backend,
    schedule,
)
from inductor import backends as backends_module
from inductor.codegen.module import LayoutMismatch, load_call
from inductor.codegen.source import module_text, straight_line
from inductor.codegen.wrapper import generate
from symshapes import build_python

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


def test_text(golden: Callable[[str, str], None]) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.mm(x, x.t())
        return y.softmax(-1), torch.mm(y, x)[1:]

    golden("wrapper", generate(scheduled(f, X.double())).text)


def test_inputs_are_emptied_and_dropped() -> None:
    text = generate(scheduled(lambda x, unused: torch.mm(x, x.t()).exp(), X, X)).text
    assert "args.clear()" in text
    assert "del arg1" in text and "del arg0" in text


def test_names_that_python_has_for_itself() -> None:
    graph, expected = trace(lambda a, b: torch.mm(a, b.t()) + 1, X, X)
    for node, name in zip(graph.graph.find_nodes(op="placeholder"), ("lambda", "_mm")):
        node.name = name
    plan = schedule(lower(graph, [X, X]))
    torch.testing.assert_close(run(plan, X, X)[0], expected[0])


def test_extern_results_of_every_kind() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, positions = torch.sort(x)
        parts = torch.linalg.svd(x)
        return values, positions * 2, parts[1] + 1, x.cummax(-1).values

    check_schedule(f, X)
    # One result that is a list, and the same of one tensor.
    check_schedule(lambda x, y: torch.stack(torch._foreach_norm([x, y])) + 1, X, X.t())
    check_schedule(lambda x: torch._foreach_norm([x])[0] + 1, X)


def test_calls_without_the_overload_object() -> None:
    w = torch.randn(3, 4, 3)

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.convolution(x[None], w, None, [1], [1], [1], False, [0], 1)
        first, _, _ = torch.native_layer_norm(x.double(), [6], None, None, 1e-5)
        values, positions = x.topk(2)
        return y, x.cumsum(1), first.cumsum(0), values, positions, torch.sort(x, 0).indices

    plan = check_schedule(f, X)
    assert "_cumsum = torch.cumsum" in generate(plan).text


def test_an_empty_graph_and_constants_as_outputs() -> None:
    module = fx.GraphModule({}, fx.Graph())
    x = module.graph.placeholder("x")
    x.meta["val"] = X
    module.graph.output((x, 3, None, 2.5, True))
    result = run(schedule(lower(module, [X])), X)
    assert result[0] is X and result[1:] == (3, None, 2.5, True)


def test_views_of_an_input_with_an_offset() -> None:
    base = torch.randn(40)

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.mm(x[1:], x[1:].t()), x[2:], x.exp()

    check_schedule(f, base[7:31].view(4, 6))


def test_results_alias_inputs_only_where_the_graph_says_so() -> None:
    plan = scheduled(lambda x: (x.t(), x + 1), X)
    view, other = run(plan, X)
    assert view.data_ptr() == X.data_ptr() and other.data_ptr() != X.data_ptr()


def cumsum_with(meta: torch.Tensor) -> CompiledGraph:
    graph, _ = trace(lambda x: (torch.cumsum(x, 0) * 2).sum(0), X)
    (node,) = (n for n in graph.graph.nodes if "cumsum" in str(n.target))
    node.meta["val"] = meta
    return compile_graph(graph, [X], backends={"cpu": ReferenceBackend()})


def test_strides_other_than_the_shape_rule_said_are_made_to_fit() -> None:
    compiled = cumsum_with(torch.empty_strided((4, 6), (1, 4)))
    with pytest.warns(UserWarning, match="cumsum"):
        first = compiled([X])
    torch.testing.assert_close(first[0], (X.cumsum(0) * 2).sum(0))
    torch.testing.assert_close(compiled([X])[0], first[0])  # and again, without a warning


def test_filters_that_raise_do_not_make_copies_to_fit_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (result,) = cumsum_with(torch.empty_strided((4, 6), (1, 4)))([X])
    torch.testing.assert_close(result, (X.cumsum(0) * 2).sum(0))
    assert "copied to fit: aten.cumsum" in caplog.text


@torch.library.custom_op("inductor_tests::changing", mutates_args=())
def changing(x: torch.Tensor, calls: torch.Tensor) -> torch.Tensor:
    """Twice the value, laid out otherwise on each call but the first."""
    calls += 1
    return (x * 2).t().contiguous().t() if calls > 1 else x * 2


@changing.register_fake
def _(x: torch.Tensor, calls: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_a_layout_that_changes_from_call_to_call_is_noticed_on_each() -> None:
    calls = torch.tensor(-10)
    op = torch.ops.inductor_tests.changing.default
    graph, _ = trace(lambda x, n: (op(x, n) + 1, op(x, n).t()), X, calls)
    compiled = compile_graph(graph, [X, calls], backends={"cpu": ReferenceBackend()})
    calls.zero_()
    for _ in range(3):
        added, turned = compiled([X, calls])
        torch.testing.assert_close(added, X * 2 + 1)
        torch.testing.assert_close(turned, (X * 2).t())
        assert turned.stride() == X.t().stride()


def test_results_that_only_go_to_other_calls_are_not_looked_at() -> None:
    graph, _ = trace(lambda x: torch.cumsum(torch.cumsum(x, 0), 1) * 2, X)
    compiled = compile_graph(graph, [X], backends={"cpu": ReferenceBackend()})
    assert compiled.source.count(".stride() !=") == 1


def test_a_size_or_dtype_other_than_the_shape_rule_said_is_an_error() -> None:
    for meta in (torch.empty(6, 4), torch.empty(4, 6, dtype=torch.float64)):
        with pytest.raises(LayoutMismatch, match="cumsum"):
            cumsum_with(meta)([X])


def test_gradients_are_not_recorded() -> None:
    weight = torch.nn.Parameter(torch.randn(6, 6))
    graph, expected = trace(lambda x, w: torch.mm(x, w).relu(), X, weight)
    compiled = compile_graph(graph, [X, weight], backends={"cpu": ReferenceBackend()})
    for _ in range(2):
        (result,) = compiled([X, weight])
        assert not result.requires_grad
        torch.testing.assert_close(result, expected[0])


def test_default_dtype_and_device_do_not_matter() -> None:
    plan = scheduled(lambda x: x.sum(0), X)
    torch.set_default_dtype(torch.float64)
    try:
        assert run(plan, X)[0].dtype is torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_kernel_no_backend_prints_is_interpreted() -> None:
    class Picky(ReferenceBackend):
        def supports(self, kernel) -> bool:
            return "sin(" not in str(kernel.body)

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.mm(x, x.t())
        z = y.exp()
        return z, z.sum(-1).sin(), y.cos()

    graph, expected = trace(f, X)
    with pytest.warns(InterpretedWarning, match=r"print them: \w*sin\w* \(cpu\)$") as told:
        compiled = compile_graph(graph, [X], backends={"cpu": Picky()})
    assert len(told) == 1 and compiled.stats.interpreted == 1 and compiled.stats.launches > 1
    for got, want in zip(compiled([X]), expected):
        torch.testing.assert_close(got, want)
    with warnings.catch_warnings(), pytest.raises(InterpretedWarning):
        warnings.simplefilter("error", InterpretedWarning)
        compile_graph(graph, [X], backends={"cpu": Picky()})


def test_memory_of_a_backend_that_prints_nothing() -> None:
    """A graph without kernels of a backend has none of the functions that come with them."""

    class Silent(ReferenceBackend):
        traits = replace(ReferenceBackend.traits, large_pages=0, pooled=0)

        def supports(self, kernel) -> bool:
            return False

    graph, (expected,) = trace(lambda x: (x.sin(),), X)
    with pytest.warns(InterpretedWarning):
        compiled = compile_graph(graph, [X], backends={"cpu": Silent()})
    torch.testing.assert_close(compiled([X])[0], expected)


def test_what_backends_print_is_no_matter_of_warnings() -> None:
    graph, _ = trace(lambda x: (x.sin().sum(-1), torch.mm(x, x.t())), X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile_graph(graph, [X], backends={"cpu": ReferenceBackend()}).stats.interpreted == 0


def test_the_file_benchmarks_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends_module, "_registered", {})
    register_backend(ReferenceBackend())
    graph, _ = trace(lambda x: torch.mm(x, x.t()).exp(), X)
    path = compile_graph(graph, [X], Options(cache_dir=str(tmp_path))).wrapper_path
    # Run alone, the file takes its kernels from the entry it lies in; the backend is registered as a site would.
    script = "import runpy, sys, inductor; inductor.register_backend(inductor.ReferenceBackend())\n"
    script += "runpy.run_path(sys.argv[1], run_name='__main__')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "us a call" in done.stdout, done.stderr
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith("cpu_")]
    assert row[1] == "1"
    assert row[-1].endswith("%")


def test_tensors_have_the_layout_that_calls_want() -> None:
    w = torch.randn(6, 6, dtype=torch.float64)

    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.mm(x.relu().view(-1, 6), w).view(2, 4, 6)
        return x.exp()

    text = generate(check_schedule(f, torch.randn(2, 4, 6, dtype=torch.float64))).text
    assert text.count("_as_strided(") == 1, text  # of the result, which has the matrix product's memory


def on_gpus(*devices: str) -> str:
    """The wrapper of x + 1 on each of these devices, from a program made by hand."""
    program = Program()
    i = sympy.Symbol("i", integer=True, nonnegative=True)
    size, stride, zero = (sympy.Integer(8),), (sympy.Integer(1),), sympy.Integer(0)
    for at, device in enumerate(devices):
        source, target = f"x{at}", f"y{at}"
        program.inputs.append(source)
        for name in (source, target):
            program.buffers[name] = Buffer(name, torch.device(device), torch.float32, size, stride)

        def body(outer: object, inner: object) -> None:
            ops.store(target, i, ops.add(ops.load(source, i), ops.constant(1.0, torch.float32)))

        loop = record(body, [i], [], lambda _: torch.float32)
        program.operations.append(LoopOp((target,), torch.device(device), size, (), loop, ()))
        program.outputs.append(StridedView(target, size, stride, zero))
    return generate(schedule(program)).text


def test_memory_that_a_result_takes_over_is_made_as_the_result_lies() -> None:
    """It would be a view, which autograd wants none of."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp().view(24)
        return ((y - y.sum()).view(4, 6),)

    graph = scheduled(f, X.view(6, 4), options=Options(fuse=False))
    assert graph.memory.reused, "nothing is written over"
    text = generate(graph).text
    assert "_as_strided" not in text and "_empty_strided((4, 6)" in text, text
    torch.testing.assert_close(run(graph, X.view(6, 4))[0], f(X.view(6, 4))[0])


def test_kernels_run_on_their_own_gpu() -> None:
    assert "if _current_device() != 1:\n        with _device(1):\n            return _itself()(args)" in on_gpus(
        "cuda:1"
    )
    text = on_gpus("cuda:0", "cuda:1")
    assert "with _device(0): cuda_fused_0(x0, y0)" in text and "with _device(1): cuda_fused_1(x1, y1)" in text
    assert "_device" not in on_gpus("cpu")


def test_the_body_of_a_graph_on_a_gpu_runs_where_that_is_current() -> None:
    for devices, only_if in [(("cuda:1",), "not (_current_device() != 1)"), (("cuda:0", "cuda:1"), ""), (("cpu",), "")]:
        piece = straight_line(on_gpus(*devices), {})
        assert (piece.only_if, len(piece.inputs)) == (only_if, len(devices))
        assert not any("args" in line or "return" in line for line in piece.lines)
        compile("\n".join([*piece.head, *piece.lines, piece.result]), "<body>", "exec")


def test_the_body_of_a_graph_is_offered_once_layouts_were_checked() -> None:
    graph, expected = trace(lambda a, b: torch.cumsum(a * b, 1).exp(), X, X)
    compiled = compile_graph(graph, [X, X], Options(cache=False))
    assert compiled.straight_line() is None
    torch.testing.assert_close(compiled([X, X])[0], expected[0])
    piece = compiled.straight_line()
    assert piece is not None and not piece.only_if
    body = [*(f"    {line}" for line in piece.lines), f"    return {piece.result}"]
    text = "\n".join([*piece.head, f"def f({', '.join(piece.inputs)}):", *body]) + "\n"
    function = build_python(text, piece.names, entry="f", title="test")
    torch.testing.assert_close(function(X, X)[0], expected[0])
    torch.testing.assert_close(compiled.call([X, X])[0], expected[0])


def test_bodies_of_graphs_of_all_shapes_are_read_from_their_text() -> None:
    def of(*lines: str) -> tuple[Any, ...]:
        body = "".join(f"    {line}\n" for line in lines)
        text = f'"""Doc."""\n\nimport torch\n\n_a = torch.a\n\n\ndef call(args):\n{body}\n\nif __name__ == "__main__":\n    pass\n'
        piece = straight_line(text, {})
        return piece.inputs, piece.head, piece.lines, piece.result, piece.only_if

    assert of("(x,) = args", "args.clear()", "y = x", "return (y,)") == (
        ("x",),
        ("_a = torch.a",),
        ("y = x",),
        "(y,)",
        "",
    )
    assert of("x, y = args", "args.clear()", "return (x, y)")[:3:2] == (("x", "y"), ())
    assert of("args.clear()", "return ()")[2:] == ((), "()", "")
    guarded = (
        "if _current() != 1:",
        "    with _device(1):",
        "        return _itself()(args)",
        "(x,) = args",
        "args.clear()",
    )
    assert of(*guarded, "return (x,)") == (("x",), ("_a = torch.a",), (), "(x,)", "not (_current() != 1)")


def test_a_graph_runs_within_its_device_and_keeps_nothing_of_itself() -> None:
    current = [0]

    @contextmanager
    def within(index: int) -> Iterator[None]:
        current.append(index)
        yield
        current.pop()

    switch = ["if _current_device() != 1:", "    with _device(1):", "        return _itself()(args)"]
    text = module_text(0, {}, [*switch, "(x,) = args", "args.clear()", "return (x + 1, _current_device())"], [])
    call = load_call(text, "<another device>", {"_current_device": lambda: current[-1], "_device": within})
    assert call([1]) == (2, 1) and current == [0]
    current.append(1)
    assert call([1]) == (2, 1)
    gone = weakref.ref(call)
    gc.disable()
    try:
        del call
        assert gone() is None
    finally:
        gc.enable()
