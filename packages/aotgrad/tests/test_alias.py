"""Views, in-place ops, writes to inputs and outputs that share storage."""

from __future__ import annotations

import pytest
import torch

import aotgrad


def randn(*size: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(sum(size))).requires_grad_(grad)


def in_place_on_views(x):
    y = x.clone()
    y[0].mul_(2)
    y[:, 1:2].add_(1)
    y.view(-1)[2:5].zero_()
    y.t()[1:].copy_(y.t()[:-1].clone())
    y.diagonal().fill_(3)
    return (y,)


def views_see_writes(x):
    y = x * 1
    flat, first, across = y.view(-1), y[0], y.t()
    y.add_(1)
    first.mul_(2)
    across[1] = 7
    return (y + 0, flat * 1, first * 1, across * 1)


def as_strided(x):
    y = x.clone()
    window = y.as_strided((2, 2), (3, 1), 1)
    window.add_(5)
    return (y * 2, window * 1)


def expand_then_write(x):
    y = x.sum(0, keepdim=True)
    wide = y.expand(3, -1)
    y.mul_(2)
    return (wide * 1, y)


def channels_last_copy(x):
    y = torch.empty_like(x.t())
    y.copy_(x.t().contiguous())
    y.view(-1) if y.is_contiguous() else None
    return (y.t().reshape(-1), y)


def splits(x):
    y = x.detach().clone()  # eager refuses to write to one of several views that autograd knows
    a, b = y.chunk(2, dim=1)
    a.add_(b)
    c, *_ = y.unbind(0)
    c.mul_(3)
    _, e = y.split([1, x.shape[0] - 1])
    e.neg_()
    return (y,)


def squeeze_and_unsqueeze(x):
    y = x.clone()
    y.unsqueeze(0).squeeze(0).unsqueeze(-1).add_(2)
    y.permute(1, 0)[0].mul_(4)
    return (y,)


def reshaped_in_place(x):
    y = x.detach().clone()
    flat = y.view(-1)
    y.transpose_(0, 1).unsqueeze_(0).transpose_(0, 1)
    y[0].mul_(3)
    return (y.squeeze_(), flat * 1)


def index_writes(x):
    y = x.clone()
    y[torch.tensor([0, 2])] = 1.5
    y[y > 1] = -1
    y.scatter_(0, torch.zeros(1, 2, dtype=torch.long), 9.0)
    y.masked_fill_(y < -0.5, 0.25)
    y.index_add_(0, torch.tensor([0, 0]), y[:2].clone())
    return (y,)


def out_variants(x):
    y = torch.empty(3, 4)
    torch.add(x, 1, out=y)
    torch.mul(y, y, out=y)
    return (y,)


def promoting_write(x):
    y = torch.zeros(3, 4, dtype=torch.float64)
    y.add_(x)
    z = x.clone()
    z.mul_(torch.tensor(2.0, dtype=torch.float64))
    return (y, z)


PROGRAMS = [
    in_place_on_views,
    views_see_writes,
    as_strided,
    expand_then_write,
    channels_last_copy,
    splits,
    squeeze_and_unsqueeze,
    reshaped_in_place,
    index_writes,
    promoting_write,
]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_functionalization(check, program, grad):
    check(program, randn(3, 4, grad=grad))


def test_out_arguments(check):
    check(out_variants, randn(3, 4))


def test_written_input(check):
    def run(x):
        x.add_(1)
        return (x.view(-1), x * 2)

    check(run, randn(3, 4))
    check(run, randn(3, 4, grad=True), nonleaf=True)


def test_written_view_of_an_input(check):
    def run(x, y):
        x[1:].copy_(y[:-1])
        return (x.sum(),)

    check(run, randn(3, 4), randn(3, 4))
    check(run, randn(3, 4), randn(3, 4, grad=True))


def test_written_input_is_used_in_the_backward(check):
    def run(x, w):
        y = (x * 2) * w
        x.zero_()
        return (y,)

    check(run, randn(3, 4), randn(3, 4, grad=True))


def test_swapped_inputs(check):
    def run(x, y):
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)
        return ()

    check(run, randn(3), randn(3) + 1)


def test_input_as_output(check):
    check(lambda x, y: (x, y, x, x.view(-1), y.t()), randn(3, 4, grad=True), randn(3, 4))


def test_copy_of_an_input_is_no_alias(check):
    def run(x):
        y = torch.empty_like(x)
        y.copy_(x)
        return (y, y.view(-1))

    check(run, randn(3, 4))
    check(run, randn(3, 4, grad=True))


def test_equal_outputs_are_separate(check):
    check(lambda x: (x + 1, x + 1), randn(3, grad=True))
    check(lambda x: (x + 1, x + 1), randn(3))


def test_equal_outputs_seen_by_views_that_no_schema_tells_of_are_separate(check):
    for program in (
        lambda x: (x.t().contiguous(), x.t().reshape(-1)),
        lambda x: (x.t().reshape(-1), x.t().contiguous()),
        lambda x: (x + 1, torch.unsafe_chunk(x + 1, 2)[0]),
        lambda x: (torch.unsafe_chunk(x + 1, 3)[2], x + 1),
    ):
        check(program, randn(3, 4, grad=True))
        check(program, randn(3, 4))

    def one_memory(x):
        y = x + 1
        return y, torch.unsafe_chunk(y, 2)[0]

    check(one_memory, randn(3, 4))


def test_outputs_that_share_an_intermediate(check):
    def run(x):
        y = x * 2
        return (y, y.view(-1), y.t(), y[0], y)

    check(run, randn(3, 4, grad=True))
    check(run, randn(3, 4))
    check(lambda x: ((x * 2).view(-1)[2:5],), randn(3, 4, grad=True))
    check(lambda x: (lambda y: (y[0], y[1:], y.detach()))(x * 2), randn(3, 4, grad=True))


def test_writing_to_an_output_writes_to_its_alias(interpreter):
    run = aotgrad.compile(lambda x: (lambda y: (y, y.view(-1)))(x * 2), [randn(3)], inference_compiler=interpreter)
    whole, flat = run(randn(3))
    whole.zero_()
    assert not flat.any()


def test_views_made_without_grad(check):
    def run(x):
        with torch.no_grad():
            view = x.view(-1)
        return (view, x.detach(), x * 2)

    check(run, randn(2, 3, grad=True))


def test_leaf_in_place_raises_as_eager(interpreter):
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        aotgrad.compile(lambda x: (x.add_(1),), [randn(3, grad=True)], inference_compiler=interpreter)


def test_impossible_writes_raise_as_eager(interpreter):
    for program in (
        lambda x: x.long().add_(0.5),
        lambda x: x.short().to(torch.uint16).copy_(x).add_(x),
        lambda x: x.add_(torch.ones(5, 3)),
        lambda x: x.copy_(torch.ones(7)),
        lambda x: x.copy_(torch.ones(2, 3)),
        lambda x: x.copy_(torch.ones(2, 7)),
        lambda x: x.sum(0, keepdim=True).copy_(x),
        lambda x: x.expand(2, 3).contiguous()[:, :1].copy_(x),
    ):
        with pytest.raises(RuntimeError) as eager:
            program(randn(3))
        with pytest.raises(RuntimeError) as ours:
            aotgrad.compile(lambda x, program=program: (program(x),), [randn(3)], inference_compiler=interpreter)
        assert str(ours.value) == str(eager.value)


def test_overlapping_inputs_run_eagerly(interpreter):
    def run(x, y):
        x.add_(1)
        return (y * 2,)

    compiled = aotgrad.compile(run, [randn(3), randn(3)], inference_compiler=interpreter)
    t, u = randn(3), randn(3)
    torch.testing.assert_close(compiled(t, t), run(u, u))
    torch.testing.assert_close(t, u)


def test_refused():
    for program in (lambda x: x.resize_(2), lambda x: x.set_(torch.ones(2)), lambda x: x.t_()):
        with pytest.raises(aotgrad.Unsupported):
            aotgrad.trace_inference(program, [randn(3, 3)])
    with pytest.raises(aotgrad.Unsupported):
        x = randn(3)
        aotgrad.trace_inference(lambda x, y: x.add_(1), [x, x.view(-1)])


def test_strided_view_of_a_view(check):
    # Autograd knows the diagonal's elements only.
    check(lambda x: (x.diagonal().as_strided((2,), (1,), 0),), randn(3, 4, grad=True))


def test_strided_view_of_a_written_view_is_refused():
    def run(x):
        diagonal = x.diagonal()
        diagonal.copy_(x.sum())
        return (diagonal.as_strided((2,), (1,), 0),)

    with pytest.raises(aotgrad.Unsupported):
        aotgrad.trace_joint(run, [randn(3, 4, grad=True) * 1])


def test_one_value_written_to_two_inputs_and_returned(check):
    def run(x, y):
        y.tanh_()
        x.view_as(x).copy_(y)
        return (x.clone(),)

    check(run, randn(3, 4, grad=True), randn(3, 4), nonleaf=True)
    check(run, randn(3, 4), randn(3, 4))


def test_expanded_values(check):
    def run(x, y):
        y.copy_(x[0, 0])
        x.copy_(y)
        return (y[0] * 1,)

    check(run, randn(3, 4), randn(3, 4))
    check(lambda x: (x.sum().expand(3, 4), x[:1].expand(3, 4)), randn(3, 4, grad=True))


def test_a_write_that_changes_nothing_but_the_gradient(check):
    def run(x, y):
        z = x * x
        z.copy_(y)
        y.copy_(z)
        return (y,)

    check(run, randn(3, 4, grad=True), randn(3, 4), nonleaf=True)


@pytest.mark.parametrize(
    ("view", "ops"),
    [
        (lambda y: y.narrow(0, 0, 3), []),
        (lambda y: y.permute(0, 1), []),
        (lambda y: y.as_strided((3, 4), (4, 1)), []),
        (lambda y: y.narrow(0, 0, 2), ["slice.Tensor"]),
        (lambda y: y.view(4, 3), ["view.default"]),
        (lambda y: torch.view_as_complex(y.view(3, 2, 2)).conj(), ["view.default", "view_as_complex.default", "_conj.default"]),
    ],
    ids=["whole slice", "same order", "same strides", "part", "other size", "other bits"],
)  # fmt: skip
def test_a_view_of_all_as_it_lies_is_no_node(view, ops):
    graph = aotgrad.trace_inference(lambda x: view(x + 1) * 2, [randn(3, 4)]).graph
    called = [str(node.target).removeprefix("aten.") for node in graph.nodes if node.op == "call_function"]
    assert called[0] == "add.Tensor" and called[1:-1] == ops
