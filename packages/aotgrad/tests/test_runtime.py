"""The functions that run compiled graphs: what autograd sees of them, errors, generated text."""

from __future__ import annotations

import linecache
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest
import torch

import aotgrad
from symshapes import FakeMode


def leaf(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(1)).requires_grad_()


def compiled(interpreter, program, *inputs):
    return aotgrad.compile(program, list(inputs), inference_compiler=interpreter)


def test_second_backward_raises_as_eager(interpreter):
    x = leaf(3)
    (out,) = compiled(interpreter, lambda x: (x.sin(),), x)(x)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        out.sum().backward()


@pytest.mark.skipif(
    not hasattr(torch.autograd.Function, "boxed_grads_call"),
    reason="before torch 2.13 autograd holds what it hands to a backward until that ends",
)
def test_what_comes_in_is_given_back_within_the_backward(interpreter):
    given, freed = [], []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx, out):
            return out * 2

        @staticmethod
        def backward(ctx, gradient):
            made = gradient * 2
            given.append(weakref.ref(made))
            return made

    def look(graph, inputs, **options):
        run = interpreter(graph, inputs, **options)

        def watched(arguments):
            found = run(arguments)
            freed.extend(each() is None for each in given)
            return found

        return watched

    x = leaf(3)
    (out,) = compiled(look, lambda x: (x.sin(),), x)(x)
    Watched.apply(out).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().cos())
    assert freed == [True]
    (out,) = compiled(look, lambda x: (x.sin(),), x)(x)
    torch.testing.assert_close(out.grad_fn.apply(torch.ones(3))[0], x.detach().cos())


def test_retained_graph(interpreter):
    x = leaf(3)
    (out,) = compiled(interpreter, lambda x: (x.sin(),), x)(x)
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().cos())


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.dropout(x.sin(), 0.5, True),
        lambda x: torch.dropout(torch.dropout(x.t().sin(), 0.3, True) * torch.rand(3), 0.5, True) * torch.randn(4, 1),
        lambda x: torch.rrelu(x.sin(), training=True).exp(),
        lambda x: x.sin() * torch.bernoulli(x.detach().sigmoid()) * torch.empty(3, 4).normal_(),
    ],
)
def test_numbers_are_drawn_again_for_second_derivatives(interpreter, draw):
    def twice(run, x):
        torch.manual_seed(3)
        (out,) = run(x)
        torch.rand(2)  # the generator goes on
        (gradient,) = torch.autograd.grad(out.pow(3).sum(), x, create_graph=True)
        (gradient.square().sum() + out.sum()).backward()
        return out, gradient, x.grad, torch.get_rng_state()

    ours, theirs = (torch.arange(12.0).reshape(3, 4).requires_grad_() for _ in range(2))
    program = lambda x: (draw(x),)  # noqa: E731
    torch.testing.assert_close(twice(compiled(interpreter, program, ours), ours), twice(program, theirs))


def test_second_derivative_is_refused_clearly(interpreter):
    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * torch.rand(3)

    x = leaf(3)
    (out,) = compiled(interpreter, lambda x: (Noisy.apply(x).sin(),), x)(x)
    (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"differentiated twice .* draws random numbers"):
        gradient.sum().backward()


def test_tangents_that_are_missing_expanded_or_permuted(interpreter):
    x = leaf(3, 4)
    run = compiled(interpreter, lambda x: (x.sin(), x.cos(), x.t() * 2), x)
    for pick in (
        lambda o: o[0].sum(),
        lambda o: (o[1] * torch.ones(4, 3).t()).sum(),
        lambda o: o[2].contiguous().sum(),
    ):
        ours, theirs = (x.detach().clone().requires_grad_() for _ in range(2))
        pick(run(ours)).backward()
        pick((theirs.sin(), theirs.cos(), theirs.t() * 2)).backward()
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_write_to_a_saved_tensor_is_noticed(interpreter):
    x = leaf(3)
    (out,) = compiled(interpreter, lambda x: (x.exp(),), x)(x)
    with torch.no_grad():
        out.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_saved_tensor_hooks_see_what_is_kept(interpreter):
    x = leaf(3)
    run = compiled(interpreter, lambda x: (x.sin(),), x)
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        (out,) = run(x)
    assert len(seen) == 1
    out.sum().backward()


def test_intermediates_die_with_the_graph(interpreter):
    import weakref

    x = leaf(3)
    (out,) = compiled(interpreter, lambda x: ((x.exp() * 2).sin(),), x)(x)
    node = weakref.ref(out.grad_fn)
    del out
    assert node() is None


def test_generated_text_is_readable(interpreter):
    run = compiled(interpreter, lambda x: (x.sin(),), torch.randn(3))
    assert "return tuple(compiled([*args]))" in run.__source__
    assert linecache.getlines(run.__code__.co_filename)


def test_modules_give_their_parameters_gradients(interpreter):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    module = torch.fx.symbolic_trace(model)
    x = torch.randn(5, 3)
    run = compiled(interpreter, module, x)
    torch.testing.assert_close(run(x), model(x))
    run(x).sum().backward()
    ours = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    for mine, p in zip(ours, model.parameters()):
        torch.testing.assert_close(mine, p.grad)


def test_lines_of_the_user_reach_backward_nodes():
    def program(x):
        return (x.sin() * x.cos(),)

    module = torch.fx.symbolic_trace(program)
    for number, node in enumerate(module.graph.nodes):
        node.meta["source"] = f"model.py:{number} in forward"
    joint = aotgrad.trace_joint(module, [leaf(3)])
    lines = {}
    for node in joint.graph.nodes:
        if node.op == "call_function":
            lines.setdefault(str(node.target), node.meta.get("source"))
    assert lines["aten.sin.default"] == "model.py:1 in forward"
    assert lines["aten.neg.default"] == "model.py:2 in forward"  # of the cosine's backward
    assert all(lines.values())


def test_partition_saves_no_views_and_no_casts_of_inputs():
    def program(x, w):
        return (x @ w.t().to(torch.float64),)

    joint = aotgrad.trace_joint(program, [torch.randn(2, 3, dtype=torch.float64), leaf(4, 3)])
    partition = aotgrad.partition_default(joint)
    assert [saved.result for saved in partition.saved] == [None] * len(partition.saved)


def test_a_partitioner_may_recompute(interpreter):
    def everything_again(joint):
        inputs = [n for n in joint.graph.nodes if n.op == "placeholder"][: joint.signature.input_count]
        return aotgrad.split(joint, inputs)

    x = leaf(3)
    run = aotgrad.compile(lambda x: (x.exp().sin(),), [x], inference_compiler=interpreter, partitioner=everything_again)
    run(x)[0].sum().backward()
    torch.testing.assert_close(x.grad, x.exp().cos().detach() * x.exp().detach())


def test_chosen_decompositions(interpreter):
    graph = aotgrad.trace_inference(torch.nn.functional.gelu, [torch.randn(3)], {})
    assert [n.target for n in graph.graph.nodes if n.op == "call_function"] == [torch.ops.aten.gelu.default]
    assert set(aotgrad.decompositions("gelu")) == {torch.ops.aten.gelu.default}
    with pytest.raises(KeyError):
        aotgrad.decompositions("convolution")
    with pytest.raises(ValueError, match="has a decomposition already"):
        aotgrad.decomposition(torch.ops.aten.gelu.default)(lambda x: x)


def test_fake_cuda_inputs():
    if not torch.backends.cuda.is_built():
        pytest.skip("this build of torch cannot make autograd nodes for CUDA tensors")
    from symshapes import FakeMode

    mode = FakeMode()
    with mode:
        x = torch.empty(4, 8, device="cuda")
        w = torch.empty(8, 8, device="cuda", requires_grad=True)

    def program(x, w):
        return (torch.nn.functional.layer_norm(torch.relu(x @ w), (8,)).sum(),)

    inference = aotgrad.trace_inference(program, [x, w])
    assert all(node.meta["val"].device.type == "cuda" for node in inference.graph.nodes if "val" in node.meta)
    if not torch.cuda.is_available():
        return  # the autograd engine asks for the device
    joint = aotgrad.trace_joint(program, [x, w])
    assert joint.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default)
    partition = aotgrad.partition_default(joint)
    assert all(
        node.meta["val"].device.type == "cuda" for node in partition.backward.graph.nodes if node.op == "placeholder"
    )


def test_nothing_of_torchs_own_compiler_is_imported():
    script = """
        import sys
        import torch
        import aotgrad

        model = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.LayerNorm(4), torch.nn.Dropout(0.1), torch.nn.Linear(4, 2)
        )
        run = aotgrad.compile(
            torch.fx.symbolic_trace(model),
            [torch.randn(5, 3)],
            inference_compiler=lambda module, inputs: lambda args: module(*args),
        )
        run(torch.randn(5, 3)).sum().backward()
        bad = [name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules]
        assert not bad, bad
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], check=True)


def test_numbers_are_built_in_and_others_run_the_program(interpreter):
    run = aotgrad.compile(lambda x, n: (x * n,), [torch.ones(3), 2], inference_compiler=interpreter)
    assert run(torch.ones(3), 2)[0].sum() == 6
    assert run(torch.ones(3), 5)[0].sum() == 15
    assert run(torch.ones(3), 2.0)[0].sum() == 6


@pytest.mark.parametrize("grad", [True, False])
def test_a_view_of_what_the_graph_made_may_be_written_to(interpreter, grad):
    x, w = leaf(3, 4), leaf(4, 3)
    program = lambda x: (x.sin().t(), x.cos()[1:])  # noqa: E731
    run = compiled(interpreter, program, x if grad else x.detach())
    found = []
    for f in (run, program):
        a, b = f(x if grad else x.detach())
        a.mul_(w)
        b.add_(w.t()[1:])
        found.append(torch.autograd.grad((a * b.sum()).sum(), [x, w] if grad else [w]))
    torch.testing.assert_close(*found)


def test_results_that_are_not_differentiated_give_no_gradient(interpreter):
    x, w, v = leaf(3), leaf(3), leaf(3)
    run = compiled(interpreter, lambda x, w, v: ((x * w).sin(), (x * v).cos().sum(), x.exp()), x, w, v)
    for pick, expected in ((0, (True, True, False)), (1, (True, False, True)), (2, (True, False, False))):
        found = torch.autograd.grad(run(x, w, v)[pick].sum(), [x, w, v], allow_unused=True)
        assert tuple(g is not None for g in found) == expected
    assert all(g is not None for g in torch.autograd.grad(sum(o.sum() for o in run(x, w, v)), [x, w, v]))


def test_grad_mode_switched_on_inside(interpreter):
    graph = torch.fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    graph.call_function(torch._C._set_grad_enabled, (True,))
    y = graph.call_method("sin", (graph.call_function(torch.mul, (x, w)),))
    view = graph.call_method("view", (y, -1, 1))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.output((y, view, graph.call_function(torch.mul, (y, 2))))
    module = torch.fx.GraphModule({}, graph)
    x, w = leaf(3), leaf(3)
    with torch.no_grad():
        run = compiled(interpreter, module, x, w)
        found, expected = run(x, w), module(x, w)
        assert not torch.is_grad_enabled()
    for mine, eagers in zip(found, expected):
        torch.testing.assert_close(mine, eagers)
        assert mine.requires_grad == eagers.requires_grad
    for mine, eagers in zip(found[:2], expected[:2]):
        ours = torch.autograd.grad((mine * 3).sum(), [x, w], retain_graph=True)
        torch.testing.assert_close(ours, torch.autograd.grad((eagers * 3).sum(), [x, w], retain_graph=True))


def test_a_view_of_an_input_made_where_grad_mode_is_switched_on(interpreter):
    graph = torch.fx.Graph()
    w, a = graph.placeholder("w"), graph.placeholder("a")
    graph.call_function(torch._C._set_grad_enabled, (True,))
    view = graph.call_method("view", (w, -1, 2))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.output((view, graph.call_method("t", (w,)), graph.call_method("sin", (a,))))
    module = torch.fx.GraphModule({}, graph)
    w, a = leaf(4, 2), torch.randn(3)
    with torch.no_grad():
        found, expected = compiled(interpreter, module, w, a)(w, a), module(w, a)
        assert not torch.is_grad_enabled()
    for mine, eagers in zip(found, expected):
        torch.testing.assert_close(mine, eagers)
        assert (mine.requires_grad, mine.grad_fn is None) == (eagers.requires_grad, eagers.grad_fn is None)
    torch.testing.assert_close(torch.autograd.grad(found[0].square().sum(), w), (2 * w,))


def test_second_derivatives(interpreter):
    x, w = leaf(3, 4), leaf(4, 2)

    def program(x, w):
        with torch.no_grad():
            scale = x.abs().sum()
        y = torch.tanh(x @ w) * scale
        return y, (y.detach() * x.sum()).sum()

    def derived(run):
        one, two = run(x * 2, w)
        (g,) = torch.autograd.grad(one.square().sum() + two, x, create_graph=True)
        return (g, *torch.autograd.grad(g.square().sum(), [x, w]))

    torch.testing.assert_close(derived(compiled(interpreter, program, x, w)), derived(program))


def test_second_derivative_of_what_was_written_to_is_refused(interpreter):
    x, b = leaf(3), torch.ones(3)
    (out,) = compiled(interpreter, lambda x, b: ((x + b).sin(),), x, b)(x, b)
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(out.sum(), x, create_graph=True)


def test_inputs_are_let_go_by_the_backward(interpreter):
    import weakref

    w = leaf(3)
    run = compiled(interpreter, lambda x, w: (x + w,), torch.ones(3), w)
    x = torch.ones(3)
    (out,) = run(x, w)
    gone = weakref.ref(x)
    del x
    out.sum().backward()
    assert gone() is None and out is not None


def test_own_saved_tensor_hooks_see_what_eager_saves(interpreter):
    x = leaf(3)
    run = compiled(interpreter, lambda x: (x.exp().sin().cos(),), x)
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t * 2):
        (out,) = run(x)
        eager = x.exp().sin().cos()
    assert len(seen) == 6
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x), torch.autograd.grad(eager.sum(), x))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: 1 / 0, lambda t: t):
        aotgrad.trace_joint(lambda x: (x.exp(),), [x])


def test_tracing_in_anomaly_mode(interpreter):
    x = leaf(3)
    with torch.autograd.detect_anomaly():
        (out,) = compiled(interpreter, lambda x: (x.sin(),), x)(x)
        assert torch.is_anomaly_enabled()
        torch.testing.assert_close(torch.autograd.grad(out.sum(), x)[0], x.detach().cos())


def _apart(x, w, v):
    hidden = torch.dropout(x * w, 0.5, True)
    one = torch.tanh(hidden).sum(0)
    two = (hidden.detach() @ v).exp()
    return one, two, (v * 2).sin(), hidden.detach()


def _losses(run, x, w, v):
    torch.manual_seed(0)
    return [(out * out.detach().cos()).sum() for out in run(x, w, v)[:3]]


def test_results_are_differentiated_one_after_the_other(interpreter):
    x, w, v = torch.randn(3, 4), leaf(4), leaf(4, 2)
    run = compiled(interpreter, _apart, x, w, v)
    assert len(run.functions) == 3
    for order in ((0, 1, 2), (2, 0, 1)):
        ours, theirs = _losses(run, x, w, v), _losses(_apart, x, w, v)
        for at in order:
            torch.testing.assert_close(ours[at], theirs[at])
            mine = torch.autograd.grad(ours[at], [w, v], allow_unused=True)
            torch.testing.assert_close(mine, torch.autograd.grad(theirs[at], [w, v], allow_unused=True))
            with pytest.raises(RuntimeError, match="a second time"):
                torch.autograd.grad(ours[at], [w, v], allow_unused=True)
    together = torch.autograd.grad(sum(_losses(run, x, w, v)), [w, v])
    torch.testing.assert_close(together, torch.autograd.grad(sum(_losses(_apart, x, w, v)), [w, v]))


def test_a_way_shared_without_anything_saved(interpreter):
    def program(x, w):
        hidden = (x + w).view(-1)
        return hidden.sin(), hidden.cos().sum(), hidden[1:] * 2, (hidden.reshape(2, 2) @ hidden.reshape(2, 2)).sum()

    x, w = leaf(2, 2), leaf(2, 2)
    run = compiled(interpreter, program, x, w)
    for at in ((0, 1, 2, 3), (3, 2, 1, 0)):
        ours, theirs = run(x, w), program(x, w)
        for i in at:
            mine = torch.autograd.grad(ours[i].sum(), [x, w])
            torch.testing.assert_close(mine, torch.autograd.grad(theirs[i].sum(), [x, w]))


def test_results_that_share_what_is_saved_have_one_backward(interpreter):
    x = leaf(3)
    run = compiled(interpreter, lambda x: (x.exp(), x.exp().sum(), (x * 2).exp() + x.exp()), x)
    assert len(run.functions) == 3
    run = compiled(interpreter, lambda x: [(h := x.exp()) * 2, h.sum(), h * 3], x)
    assert len(run.functions) == 1


def test_what_no_gradient_flows_to_is_left_alone(interpreter):
    def second(x, h, w):
        return (h.detach() * w).sin(), h.detach() + x

    x, w = leaf(3), leaf(3)
    (hidden,) = compiled(interpreter, lambda x: (x.exp(),), x)(x)
    run = compiled(interpreter, second, x, hidden, w)
    for result in run(x, hidden, w):
        result.sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(3))
    hidden.sum().backward()
    torch.testing.assert_close(x.grad, 1 + x.detach().exp())


def test_a_backward_that_is_given_nothing_gives_nothing(interpreter):
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, h):
            return h * 1

        @staticmethod
        def backward(ctx, g):
            return None

    x, w = leaf(3), leaf(3)
    (hidden,) = compiled(interpreter, lambda x: (x.exp(),), x)(x)
    (Nothing.apply(hidden) + w).sum().backward()
    assert x.grad is None and w.grad is not None


def test_training_of_cudnn_layers_is_refused_and_the_call_named():
    """What they keep for their backward has sizes that no trace knows."""
    if not torch.backends.cuda.is_built():
        pytest.skip("this build of torch cannot make autograd nodes for CUDA tensors")

    class Lstm(torch.nn.Module):
        def forward(self, x, h, a, b, c, d):
            scaled = x * 2
            return (
                torch._cudnn_rnn(scaled, [a, b, c, d], 4, None, h, h, 2, 5, 0, 1, False, 0.0, True, False, [], None)[0],
            )

    module = torch.fx.symbolic_trace(Lstm())
    with FakeMode():
        sizes = [(3, 2, 4), (1, 2, 5), (20, 4), (20, 5), (20,), (20,)]
        inputs = [torch.empty(size, device="cuda", requires_grad=len(size) == 2) for size in sizes]
    with pytest.raises(aotgrad.Unsupported, match="cuDNN") as refusal:
        aotgrad.trace_joint(module, inputs)
    assert refusal.value.call.target is torch._cudnn_rnn
    assert aotgrad.trace_inference(module, inputs).graph.nodes


@pytest.mark.parametrize(
    "program",
    [lambda x: torch.complex(x, x) * 1j, lambda x: torch.complex(x, x.sin()) / (1 + 2j), lambda x: x[0] * 2j],
)
def test_complex_numbers_of_the_program(interpreter, program):
    """Autograd takes the conjugate of the number, which the dispatcher hands over as a number."""
    x = leaf(3)
    (out,) = compiled(interpreter, lambda x: (program(x),), x)(x)
    torch.testing.assert_close(out, program(x))
    ours, theirs = (torch.autograd.grad(y.imag.sum() + y.abs().sum(), x) for y in (out, program(x)))
    torch.testing.assert_close(ours, theirs)


def test_what_is_saved_is_given_back_as_the_backward_goes(interpreter):
    """Unless the graph is kept: then another backward comes for it."""
    memory: list[weakref.ref[np.ndarray]] = []

    def forward(module, inputs):
        run = interpreter(module, inputs)

        def call(args):
            owners = [result.numpy().copy() for result in run(args)]  # whose end can be seen
            memory[:] = map(weakref.ref, owners)
            return [torch.from_numpy(owner) for owner in owners]

        return call

    lives: list[list[bool]] = []

    def backward(module, inputs):
        run = interpreter(module, inputs)

        def call(args):
            result = run(args)
            lives.append([one() is not None for one in memory])
            return result

        return call

    x = leaf(3)
    run = aotgrad.compile(
        lambda x: (x.sin().exp().tanh(),),
        [x],
        inference_compiler=interpreter,
        forward_compiler=forward,
        backward_compiler=backward,
    )
    (out,) = run(x)
    result, *saved = memory
    assert saved
    assert result() is not None
    out.sum().backward(retain_graph=True)
    out.detach_()
    (out,) = run(x)
    out.sum().backward()
    kept, (_, *left) = lives
    assert all(kept)
    assert not any(left)
