"""Passes over ATen graphs: each row with a match and a near miss, before and after; what no row may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from inductor_dynamic import check_dynamic, trace_dynamic
from inductor_tracing import trace
from torch import fx

from inductor import Options, ReferenceBackend, compile_graph, lower
from inductor.handlers.interpreter import run_program
from inductor.passes import GRAPH_PASSES, GraphPass, Var, call_of, rewrite_graph, select, selection
from symshapes import DimPolicy, FakeMode, ShapeEnv

aten = torch.ops.aten
Example = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]

A, B = torch.arange(12.0).view(3, 4), torch.ones(4, 3)
EMPTY = torch.ones(0, 4)
PIXELS, IMAGES, FILTERS = (
    torch.arange(6.0).view(2, 3, 1, 1),
    torch.ones(2, 3, 2, 1),
    torch.arange(12.0).view(4, 3, 1, 1),
)
CHANNELS_LAST = IMAGES.to(memory_format=torch.channels_last)
X, Y = Var("x"), Var("y")
NEGATED_TWICE = GraphPass(
    "negated_twice",
    "",
    call_of(aten.neg.default, self=call_of(aten.neg.default, only_user=True, self=X)),
    lambda m: m[X],
)

# One function has what the pass is for and what only looks like it, the latter after a multiplication by two.
EXAMPLES: dict[str, Example] = {
    "identity": (
        lambda x, z: (aten.alias(x) + 1, aten.resolve_conj(aten._conj(z) * 2)),
        (A, torch.ones(2, dtype=torch.complex64)),
    ),
    "view_of_all": (
        lambda x: (x[:, :] + 1, x.view(3, 4) + 1, x.expand(3, 4) + 1, (x * 2)[:, :3] + 1, (x * 2).view(4, 3) + 1),
        (A,),
    ),
    "view_of_view": (
        lambda x, y: (
            aten.view(aten.view(x, [12]), [2, 6]) + 1,
            aten.view(aten.view((y * 2).t(), [3, 2, 2]), [3, 4]) + 1,
        ),
        (A, torch.ones(3, 4).t()),
    ),
    "permute_of_permute": (
        lambda x, y: (
            y.permute(2, 0, 1).permute(1, 0, 2) + 1,
            aten.view((x * 2).permute(1, 0), [4, 3]).permute(1, 0) + 1,
        ),
        (A, torch.ones(2, 3, 4)),
    ),
    "cast_to_own": (
        lambda x: (aten._to_copy(x, dtype=torch.float32) + 1, aten._to_copy(x * 2, dtype=torch.float64) + 1),
        (A,),
    ),
    "cat_of_one": (lambda x, e: (torch.cat([x, e]), torch.cat([x * 2, x])), (A, EMPTY)),
    "slice_scatter_of_nothing": (
        lambda x, e: (aten.slice_scatter(x, e, 0, 2, 2), aten.slice_scatter(x * 2, x[:1], 0, 2, 3)),
        (A, EMPTY),
    ),
    "slice_scatter_of_all": (
        lambda x, y: (aten.slice_scatter(x, y, 0), aten.slice_scatter(x * 2, y[1:], 0, 1)),
        (A, A + 1),
    ),
    "slice_written_twice": (
        lambda x, y: (
            aten.slice_scatter(aten.slice_scatter(x, y[1:], 0, 1), y[:2], 0, 1),
            aten.slice_scatter(aten.slice_scatter(x, y[1:], 0, 1), y[:2], 0, 0, 2),
        ),
        (A, A + 1),
    ),
    "place_written_twice": (
        lambda x, y: (
            aten.select_scatter(aten.select_scatter(x, y[1], 0, 1), y[0], 0, 1),
            aten.select_scatter(aten.select_scatter(x, y[1], 0, 1), y[0], 0, 2),
        ),
        (A, A + 1),
    ),
    "pad_of_nothing": (
        lambda x: (aten.constant_pad_nd(x, [0, 0]), aten.constant_pad_nd(x * 2, [0, 1, 0, -1])),
        (A,),
    ),
    "convolution_of_few_points": (
        lambda x, w, b, y, z, many: (
            *(F.conv2d(x, w), F.conv2d(x, w, b, stride=2), F.conv1d(x[..., 0], w[..., 0]), F.conv2d(z, w)),
            *(F.conv2d(y, w), F.conv2d(x * 2, w, padding=1, stride=3), F.conv2d(x * 2, w[:3, :1], groups=3)),
            *(F.conv2d(z * 2, w, stride=2), F.conv2d(many, w)),
        ),
        (PIXELS, FILTERS, torch.arange(4.0), IMAGES, CHANNELS_LAST, torch.ones(1, 9, 9, 3).movedim(3, 1)),
    ),
}


def text(graph: fx.Graph) -> str:
    lines = []
    for node in graph.nodes:
        value = node.meta.get("val")
        kind = f"{str(value.dtype)[6:]}{list(value.shape)}" if isinstance(value, torch.Tensor) else ""
        arguments = ", ".join([*map(str, node.args), *(f"{name}={value}" for name, value in node.kwargs.items())])
        lines.append(f"{node.name}: {kind} = {node.target}({arguments})" if kind else f"{node.op} {arguments}")
    return "\n".join(lines)


def one(name: str) -> tuple[GraphPass, ...]:
    return tuple(each for each in GRAPH_PASSES if each.name == name)


def test_every_row_has_an_example() -> None:
    assert [each.name for each in GRAPH_PASSES] == list(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_before_and_after(name: str, golden: Callable[[str, str], None]) -> None:
    function, inputs = EXAMPLES[name]
    module, expected = trace(function, *inputs)
    before = text(module.graph)
    graph, counts = rewrite_graph(module.graph, one(name))
    assert counts[name] >= 1
    assert text(module.graph) == before, "the graph that was given stays as it is"
    graph.lint()
    golden(name, f"{before}\n\nbecomes\n\n{text(graph)}")
    found = fx.Interpreter(fx.GraphModule(module, graph)).run(*inputs)
    assert all(map(torch.equal, found, expected))
    assert [value.stride() for value in found] == [value.stride() for value in expected]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_switch(name: str) -> None:
    function, inputs = EXAMPLES[name]
    module, expected = trace(function, *inputs)
    on, off = lower(module, inputs), lower(module, inputs, Options(disabled_passes=(name,)))
    assert on.rewrites[name] >= 1 and name not in off.rewrites
    for program in (on, off):
        found = run_program(program, inputs)
        assert all(map(torch.equal, found, expected))
        assert [value.data_ptr() in {i.data_ptr() for i in inputs} for value in found] == [False] * len(found)


def test_a_graph_where_nothing_applies_is_not_copied() -> None:
    module, _ = trace(lambda x: x.sin().view(12) + 1, A)
    graph, counts = rewrite_graph(module.graph, GRAPH_PASSES)
    assert graph is module.graph and not counts


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="no pass 'idenity'"):
        select(["idenity"])


def test_counted_and_part_of_the_key(tmp_path: Any) -> None:
    module, expected = trace(EXAMPLES["view_of_all"][0], A)
    backends = {"cpu": ReferenceBackend()}
    compiled = compile_graph(module, [A], backends=backends)
    assert compiled.stats.rewrites == {"identity": 1, "view_of_all": 2}
    assert all(map(torch.equal, compiled([A]), expected))
    on, off = Options(cache_dir=str(tmp_path)), Options(cache_dir=str(tmp_path), disabled_passes=("view_of_all",))
    assert [compile_graph(module, [A], options).stats.cache for options in (on, off, on)] == ["miss", "miss", "hit"]


def test_a_pass_from_elsewhere_is_part_of_the_key(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its file; what no file holds may be another thing under the same name tomorrow."""
    module, _ = trace(lambda x: -(-x), A)
    options = Options(cache_dir=str(tmp_path))
    assert compile_graph(module, [A], options).stats.cache == "miss"
    monkeypatch.setattr(selection, "GRAPH_PASSES", [NEGATED_TWICE])
    assert [compile_graph(module, [A], options).stats.cache for _ in range(2)] == ["miss", "hit"]
    nowhere: dict[str, Any] = {}
    exec("def rewrite(match): return match.node", {}, nowhere)
    nameless = GraphPass("nameless", "", call_of(aten.cos.default), nowhere["rewrite"])
    monkeypatch.setattr(selection, "GRAPH_PASSES", [nameless])
    assert compile_graph(module, [A], options).stats.cache.startswith("not cached: no file holds")


def test_a_result_keeps_memory_of_its_own() -> None:
    module, _ = trace(lambda x: (-(-x), -(-x.sin())), A)
    assert not rewrite_graph(module.graph, [NEGATED_TWICE])[1], "whatever the row says"
    module, _ = trace(lambda x: aten._to_copy(x, dtype=torch.float32).view(12), A)
    assert not rewrite_graph(module.graph, GRAPH_PASSES)[1]


def test_users_of_what_lies_between_keep_it() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        between = aten.view(x, [12])
        return between.sin(), aten.view(between, [2, 6]).sin()

    module, _ = trace(function, A)
    graph, counts = rewrite_graph(module.graph, GRAPH_PASSES)
    assert counts == {"view_of_view": 1}
    assert [str(node.target) for node in graph.nodes].count("aten.view.default") == 2


def test_what_others_read_is_no_match_where_the_pattern_says_so() -> None:
    module, _ = trace(lambda x: (-(-x)).sin(), A)
    assert rewrite_graph(module.graph, [NEGATED_TWICE])[1] == {"negated_twice": 1}
    module, _ = trace(lambda x: ((y := -x).sin(), -y), A)
    assert not rewrite_graph(module.graph, [NEGATED_TWICE])[1]


def test_a_variable_that_stands_twice_is_one_value() -> None:
    doubled = GraphPass(
        "doubled", "", call_of(aten.add.Tensor, self=X, other=X), lambda m: m.call(aten.mul.Tensor, m[X], 2)
    )
    module, _ = trace(lambda x, y: (x + x, x + y), A, B.t())
    assert rewrite_graph(module.graph, [doubled])[1] == {"doubled": 1}


def test_defaults_count_as_given_and_kinds_of_numbers_differ() -> None:
    plain = GraphPass(
        "plain", "", call_of(aten.add.Tensor, self=X, other=Y, alpha=1), lambda m: m.call(aten.clone.default, m[X])
    )
    module, _ = trace(lambda x, y: (torch.add(x, y), torch.add(x, y, alpha=1.0), torch.add(x, y, alpha=2)), A, B.t())
    assert rewrite_graph(module.graph, [plain])[1] == {"plain": 1}


def test_what_acts_is_left_alone() -> None:
    drawn = GraphPass("drawn", "", call_of(aten.rand_like.default, self=X), lambda m: m[X])
    around = GraphPass(
        "around", "", call_of(aten.neg.default, self=call_of(aten.rand_like.default, self=X)), lambda m: m[X]
    )
    module, _ = trace(lambda x: -torch.rand_like(x), A)
    assert not rewrite_graph(module.graph, [drawn, around])[1]
    ignored = GraphPass("ignored", "", call_of(aten.mul.Tensor, self=X), lambda m: m[X])
    module, _ = trace(lambda x: (x * torch.rand_like(x)).sin(), A)
    graph, counts = rewrite_graph(module.graph, [ignored])
    assert counts == {"ignored": 1}
    assert "aten.rand_like.default" in [str(node.target) for node in graph.nodes], "the generator moves on all the same"


def test_what_would_change_metadata_does_not_apply() -> None:
    wrong = GraphPass("wrong", "", call_of(aten.sum.default, self=X), lambda m: m[X])
    transposed = GraphPass("transposed", "", call_of(aten.neg.default, self=X), lambda m: m.call(aten.t.default, m[X]))
    module, _ = trace(lambda x: (x.sum(), -x), torch.ones(3, 3))
    graph, counts = rewrite_graph(module.graph, [wrong, transposed])
    assert not counts and text(graph) == text(module.graph)


def test_symbolic_sizes() -> None:
    """Sizes that are the same expression are the same; those that only happen to be now are not."""
    mode = FakeMode(ShapeEnv())
    with mode:
        x = mode.from_tensor(torch.ones(6, 5), source="x", policy=[DimPolicy.DYNAMIC, DimPolicy.STATIC])
        y = mode.from_tensor(torch.ones(7, 5), source="y", policy=[DimPolicy.DYNAMIC, DimPolicy.STATIC])
        graph = fx.Graph()
        nodes = []
        for name, value in (("x", x), ("y", y)):
            node = graph.placeholder(name)
            node.meta["val"] = value
            nodes.append(node)
        made = []
        for value in (x[:], y):
            node = graph.call_function(aten.slice.Tensor, (nodes[0], 0))
            node.meta["val"] = value
            made.append(node)
        flat = graph.call_function(aten.view.default, (nodes[0], [x.numel()]))
        flat.meta["val"] = x.view(x.numel())
        split = graph.call_function(aten.view.default, (flat, [x.shape[0], 5, 1]))
        split.meta["val"] = flat.meta["val"].view(x.shape[0], 5, 1)
        graph.output((*made, split))
        env, before = x.fake_mode.shape_env, len(x.fake_mode.shape_env.guards)
        new, counts = rewrite_graph(graph, GRAPH_PASSES)
    (output,) = new.find_nodes(op="output")
    assert counts == {"view_of_all": 1, "view_of_view": 1}
    assert [node.name for node in output.args[0]] == ["x", made[1].name, "view"]
    assert len(env.guards) == before, "guards are made already"


def test_a_copy_at_symbolic_sizes_has_the_metadata_of_the_call() -> None:
    """A `cat` of one part, which may be of another dtype than it, or laid out otherwise."""

    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        nothing = torch.zeros(0)
        return (
            aten.cat.default([nothing, x]),
            aten.cat.default([y.t()]),
            aten.constant_pad_nd.default(y.t(), [0, 0]),
            aten.cat.default([nothing, y * 2], 1),
        )

    examples = [(torch.ones(n, 3, dtype=torch.int64), torch.randn(n, n + 1)) for n in (5, 4)]
    check_dynamic(program, *examples)
    _, counts = rewrite_graph(trace_dynamic(program, *examples[0])[0].graph, select().graph)
    assert (counts["cat_of_one"], counts["pad_of_nothing"]) == (1, 1)


Step = st.tuples(st.integers(0, 11), st.integers(0, 99), st.integers(0, 99))


def a_program(steps: list[tuple[int, int, int]], outputs: list[int]) -> Callable[..., Any]:
    """Tensors made of one another in ways that the rows look for, and in ways that only look like it."""

    def step(kind: int, x: torch.Tensor, n: int, y: torch.Tensor) -> torch.Tensor:
        size, rank = list(x.shape), x.dim()
        match kind:
            case 0:
                return aten.alias(x) if n % 2 else aten.resolve_neg(x)
            case 1:
                return aten.view(x, size) if n % 2 and x.is_contiguous() else x.reshape(-1)
            case 2 if x.is_contiguous():
                return aten.view(aten.view(x, [-1]), size if n % 2 else [size[-1], -1])
            case 3:
                return x.permute([(at + n) % rank for at in range(rank)]).permute(
                    [(at + 1) % rank for at in range(rank)]
                )
            case 4:
                return aten._to_copy(x, dtype=[torch.float32, torch.bfloat16, torch.float64][n % 3])
            case 5:
                return torch.cat([x[:0], x, *[x] * (n % 2)])
            case 6:
                return aten.slice_scatter(x, x[: n % 2], 0, 0, n % 2)
            case 7:
                return aten.slice_scatter(x, x.neg(), 0, 0, None if n % 2 else 2**62)
            case 8:
                return aten.constant_pad_nd(x, [0, n % 2])
            case 9:
                return x[n % 2 :] if size[0] > 1 else x
            case 10:
                return x * 2 if n % 2 else x.sin()
            case _:
                return torch.where(x > 0, x, x + 0.0) if n % 2 else x.squeeze() if x.squeeze().dim() else x

    def function(*inputs: torch.Tensor) -> list[torch.Tensor]:
        values = list(inputs)
        for kind, a, n in steps:
            values.append(step(kind, values[a % len(values)], n, values[-1]))
        return [values[at % len(values)] for at in outputs] + [values[-1]]

    return function


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(Step, min_size=3, max_size=16), st.lists(st.integers(0, 99), max_size=2))
@example(
    [(0, 0, 0), (0, 0, 0), (0, 0, 0), (2, 1, 1), (0, 6, 1)], []
)  # an alias of what has not eager's layout in memory
def test_random_graphs_keep_their_bits(steps: list[tuple[int, int, int]], outputs: list[int]) -> None:
    inputs = (
        A - 5.5,
        torch.tensor([[0.0, -0.0, float("nan"), 1e-40]]),
        torch.linspace(-1, 1, 8).bfloat16().view(2, 4).t(),
    )
    module, _ = trace(a_program(steps, outputs), *inputs)
    names = select().names
    plain = run_program(lower(module, inputs, Options(disabled_passes=names)), inputs)
    rewritten = run_program(lower(module, inputs), inputs)
    for found, expected in zip(rewritten, plain, strict=True):
        assert found.dtype is expected.dtype and found.shape == expected.shape
        assert all(n == 1 or a == b for n, a, b in zip(found.shape, found.stride(), expected.stride(), strict=True))
        assert torch.equal(*(value.flatten().clone().view(torch.uint8) for value in (found, expected)))


def test_a_large_graph_is_walked_once() -> None:
    looked: list[fx.Node] = []

    def count(match: Any) -> bool:
        looked.append(match.node)
        return False

    counting = GraphPass("counting", "", call_of(aten.neg.default, self=X), lambda m: m[X], when=count)
    graph = fx.Graph()
    node = graph.placeholder("x")
    node.meta["val"] = A
    for at in range(2_000):
        node = graph.call_function(aten.neg.default if at % 100 == 0 else aten.sin.default, (node,))
        node.meta["val"] = A
    graph.output((node,))
    assert rewrite_graph(graph, [counting])[0] is graph
    assert len(looked) == 20
