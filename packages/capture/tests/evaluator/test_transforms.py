"""`torch.func` in captured functions: what the graph has, what is left in force, sizes that change, gradients through transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import capture

levels = torch._C._functorch.get_interpreter_stack


def captured(f: Callable[..., Any], seen: list[torch.fx.GraphModule], **options: Any) -> Callable[..., Any]:
    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        seen.append(module)
        return module.forward

    return capture.compile(f, backend, **options)


def cube(v: torch.Tensor) -> torch.Tensor:
    return (v**3).sum()


def test_the_graph_enters_levels_and_leaves_them() -> None:
    seen: list[torch.fx.GraphModule] = []
    x = torch.randn(3, 4)
    torch.testing.assert_close(captured(vmap(grad(cube)), seen, fullgraph=True)(x), 3 * x**2)
    names = [
        getattr(node.target, "__name__", node.target) for node in seen[0].graph.nodes if node.op.startswith("call")
    ]
    assert names[0] == "_vmap_increment_nesting"
    assert names[-1] == "_vmap_decrement_nesting"
    assert names.count("_grad_increment_nesting") == names.count("_grad_decrement_nesting") == 1
    # It is a program like another: of other values, in a transform around it, and in whatever level it runs.
    (found,) = seen[0](x + 1)
    torch.testing.assert_close(found, 3 * (x + 1) ** 2)
    torch.testing.assert_close(vmap(lambda y: seen[0](y)[0])(torch.stack([x, -x])), torch.stack([3 * x**2] * 2))


@pytest.mark.parametrize("f", [jacrev(torch.sin), jacfwd(torch.sin), hessian(cube)], ids=["rev", "fwd", "hessian"])
def test_sizes_that_change(f: Callable[..., Any]) -> None:
    seen: list[torch.fx.GraphModule] = []
    compiled = captured(lambda x: f(x) + 1, seen, fullgraph=True, dynamic=True)
    for length in (3, 5):
        x = torch.randn(length)
        torch.testing.assert_close(compiled(x), f(x) + 1)


def test_one_graph_for_all_batches() -> None:
    seen: list[torch.fx.GraphModule] = []
    weight = torch.randn(4, 2)
    compiled = captured(lambda x: vmap(lambda row: (row @ weight).tanh())(x), seen, fullgraph=True, dynamic=True)
    for length in (3, 5, 8):
        x = torch.randn(length, 4)
        torch.testing.assert_close(compiled(x), (x @ weight).tanh())
    assert len(seen) == 1


def test_an_operation_that_takes_no_symbols_is_captured_for_each_size() -> None:
    seen: list[torch.fx.GraphModule] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        return vmap(lambda row: torch.nn.functional.dropout(row, 1.0), randomness="different")(x)

    compiled = captured(f, seen, fullgraph=True, dynamic=True)
    for length in (3, 5):
        assert torch.equal(compiled(torch.ones(length, 4)), torch.zeros(length, 4))


def test_a_capture_that_stops_within_leaves_no_level() -> None:
    def stops(x: torch.Tensor) -> torch.Tensor:
        return jvp(lambda v: grad(lambda w: w.sum() * w.sum().item())(v), (x,), (x,))[0]

    x = torch.randn(3)
    with pytest.raises(capture.GraphBreakError):
        capture.compile(lambda x: vmap(lambda row: row.sum().item())(x), fullgraph=True)(x[None])
    capture.compile(stops)(x)
    assert levels() is None
    assert forward_ad._current_level == -1
    assert not torch._C._functorch.get_inplace_requires_grad_allowed()


def test_a_pullback_that_is_handed_out_is_eagers() -> None:
    x = torch.randn(3)
    out, pull = capture.compile(lambda x: vjp(torch.sin, x * 2))(x)
    torch.testing.assert_close(out, (x * 2).sin())
    torch.testing.assert_close(pull(torch.ones(3))[0], (x * 2).cos())


def test_a_captured_function_within_a_transform() -> None:
    x = torch.randn(3, 4)
    f = capture.compile(grad(cube))
    torch.testing.assert_close(f(x[0]), 3 * x[0] ** 2)
    torch.testing.assert_close(vmap(f)(x), 3 * x**2)
    torch.testing.assert_close(jacrev(f)(x[0]), torch.diag(6 * x[0]))


def test_hooks_on_saved_tensors_are_refused_as_eager_does() -> None:
    f = capture.compile(grad(cube))
    f(torch.randn(3))
    with (
        torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        pytest.raises(RuntimeError, match="saved tensor hooks"),
    ):
        f(torch.randn(3))


def test_gradients_through_transforms() -> None:
    module = torch.nn.Linear(4, 2)
    seen: list[torch.fx.GraphModule] = []

    def penalised(x: torch.Tensor) -> torch.Tensor:
        out, pull = vjp(lambda v: module(v).tanh(), x)
        (slope,) = pull(torch.ones_like(out))
        return out.sum() + slope.pow(2).sum() + hessian(cube)(x[0]).sum()

    def step(f: Callable[..., Any]) -> list[torch.Tensor | None]:
        x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
        module.zero_grad()
        f(x).backward()
        return [x.grad, module.weight.grad, module.bias.grad]

    expected = step(penalised)
    for one, other in zip(step(captured(penalised, seen, fullgraph=True)), expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("leaf", [True, False])
def test_what_was_computed_before_is_met_within_a_transform(leaf: bool) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda a: (a * a * SCALE[0]).sum())(x)

    found = []
    for each in (fn, capture.compile(fn, fullgraph=True)):
        x = torch.arange(3.0, requires_grad=True)
        given = x if leaf else x * 2
        (gradient,) = torch.autograd.grad(each(given).sin().sum(), x)
        found.append(gradient)
    torch.testing.assert_close(*found)


#: Met no earlier than within.
SCALE = [torch.ones(3, requires_grad=True) * 3]


def test_what_a_transformed_module_changes() -> None:
    module = torch.nn.BatchNorm1d(4)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    compiled = capture.compile(lambda by_name, x: (functional_call(module, by_name, (x,)), by_name))
    x = torch.randn(3, 4)
    expected = functional_call(module, given := {k: v.clone() for k, v in state.items()}, (x,))
    found, changed = compiled({k: v.clone() for k, v in state.items()}, x)
    torch.testing.assert_close(found, expected)
    assert all(torch.equal(changed[name], given[name]) for name in state)
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())


def test_custom_functions_within() -> None:
    class Square(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x**2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g * 7

    x = torch.randn(3, 4)
    for f in (vmap(Square.apply), grad(lambda v: Square.apply(v).sum()), vmap(grad(lambda v: Square.apply(v).sum()))):
        torch.testing.assert_close(capture.compile(f)(x), f(x))


def test_gradients_of_a_batch() -> None:
    seen: list[torch.fx.GraphModule] = []
    x = torch.linspace(-1, 1, 4).requires_grad_()

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(x**3, x, torch.eye(4), is_grads_batched=True)[0]

    torch.testing.assert_close(captured(f, seen, fullgraph=True)(x), f(x))
    jacobian = torch.autograd.functional.jacobian
    g = captured(lambda x: jacobian(lambda v: v.sin() * v.sum(), x, vectorize=True), seen, fullgraph=True)
    torch.testing.assert_close(g(x.detach()), jacobian(lambda v: v.sin() * v.sum(), x.detach()))


def test_a_break_within_a_transform_breaks_at_its_call() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        def row(v: torch.Tensor) -> torch.Tensor:
            compile("0", "", "eval")
            return v.sin()

        return vmap(row)(x + 1) * 2

    compiled = capture.compile(f)
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x), f(x))
    report = capture.report(compiled)
    assert (report.graph_count, len(report.breaks)) == (2, 1)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: v.requires_grad_(),
        lambda v: v.data,
        lambda v: torch.autograd.grad((v**3).sum(), v, create_graph=True)[0],
        lambda v: v.sum() if v.is_leaf else v.sum() * 2,
    ],
    ids=["requires_grad_", "data", "grad", "is_leaf"],
)
def test_questions_about_autograd_are_eagers_within_a_transform(f: Callable[..., Any]) -> None:
    def whole(x: torch.Tensor) -> Any:
        try:
            return grad(lambda v: (f(v) * v).sum())(x)
        except RuntimeError as error:
            return str(error)

    x = torch.linspace(-1, 1, 4)
    expected, found = whole(x), capture.compile(whole)(x)
    assert type(found) is type(expected)
    assert torch.equal(found, expected) if isinstance(expected, torch.Tensor) else found == expected


def test_a_graph_that_raises_within_leaves_no_level() -> None:
    table = torch.arange(4.0)
    f = captured(lambda x, at: vmap(lambda i: table[i] * x)(at), [], fullgraph=True)
    x = torch.ones(2)
    assert f(x, torch.tensor([0, 3])).shape == (2, 2)
    with pytest.raises(IndexError):
        f(x, torch.tensor([0, 4]))
    assert levels() is None


def test_a_check_that_fails_within_leaves_no_level() -> None:
    def positive(v: torch.Tensor) -> torch.Tensor:
        if v.sum() < 0:
            raise ValueError("negative")
        return (v * v).sum()

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return lambda *given: module(*given)

    f = capture.compile(lambda x: grad(positive)(x), backend, fullgraph=True)
    assert f(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(ValueError, match="negative"):
        f(-torch.ones(2))
    assert levels() is None


LINEAR = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jvp(LINEAR, (x,), (x.cos(),))[1],
        lambda x: jvp(grad(lambda v: LINEAR(v).sin().sum()), (x,), (torch.ones_like(x),))[1],
        lambda x: jvp(lambda v: v.t() * 2, (x,), (x.t().contiguous().t(),))[1],
    ],
    ids=["jvp", "hessian by vector", "tangent in another layout"],
)
def test_tangents_of_changing_sizes(f: Callable[..., Any]) -> None:
    compiled = capture.compile(f, fullgraph=True, dynamic=True)
    for n in (3, 5, 6):
        x = torch.randn(n, 4)
        found, wanted = compiled(x), f(x)
        torch.testing.assert_close(found, wanted)
        assert found.stride() == wanted.stride()
    assert compiled.session.report.graph_count == 1


def test_tangents_whose_layer_torch_asks_for_plain_sizes() -> None:
    layer = torch.nn.LayerNorm(4)

    def f(x: torch.Tensor) -> torch.Tensor:
        return jvp(layer, (x,), (torch.ones_like(x),))[1]

    compiled = capture.compile(f, fullgraph=True)
    for n in (3, 5, 6):
        x = torch.randn(n, 4)
        torch.testing.assert_close(compiled(x), f(x))
