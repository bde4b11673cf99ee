"""Whole graphs: the lowered program, run by the interpreter, gives eager's results and strides."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from inductor_tracing import check, trace

from inductor.handlers.interpreter import run_program
from inductor.ir.program import LoopOp, Program
from inductor.lower import lower


def test_pointwise_views_reductions_and_extern_calls_together() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        y = torch.nn.functional.gelu(x @ w + b)
        z = y.view(4, 2, 8).transpose(1, 2).sum(-1)
        return torch.softmax(z, -1), (y - y.mean(-1, keepdim=True)) / y.std(-1, keepdim=True), y.amax(0)

    check(f, torch.randn(8, 16), torch.randn(16, 8), torch.randn(8))


def test_many_users_read_memory_and_one_user_inlines() -> None:
    def f(x: Any) -> Any:
        heavy = torch.exp(x) + 1
        return heavy.sum(), heavy * 2

    program = check(f, torch.randn(4, 5))
    assert [op.writes for op in program.operations] == [("buf0",), ("buf1",), ("buf2",)]
    single = check(lambda x: (torch.exp(x) + 1).sum(), torch.randn(4, 5))
    assert len(single.operations) == 1


def test_a_value_used_twice_in_one_body_is_computed_once() -> None:
    def f(x: Any) -> Any:
        for _ in range(40):
            x = x + x * 0.5
        return x

    program = check(f, torch.randn(3))
    assert sum(len(op.body.ops) for op in program.operations if isinstance(op, LoopOp)) < 200


def test_adjacent_loops_merge() -> None:
    (op,) = check(lambda x, y: x.relu() + y, torch.randn(2, 3, 4), torch.randn(2, 3, 4)).operations
    assert isinstance(op, LoopOp) and op.outer_sizes == (24,)


def test_channels_last_loops_follow_memory() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    (op,) = check(lambda x: x * 2, x).operations
    assert isinstance(op, LoopOp) and op.outer_sizes == (120,)


def test_bfloat16_comparisons_see_rounded_values() -> None:
    # Unrounded, `y` would never equal its stored maximum.
    def f(x: Any) -> Any:
        y = x * 1.7
        return y == y.amax(-1, keepdim=True)

    check(f, torch.randn(8, 64, dtype=torch.bfloat16))


def test_casts_round_where_eager_does() -> None:
    x = torch.randn(64)
    program = check(lambda x: (x.to(torch.bfloat16) * 3).to(torch.float32), x, rtol=0, atol=0)
    assert len(program.operations) == 1


def test_outputs_that_are_inputs_views_and_numbers() -> None:
    check(lambda x: (x, x.t(), x[1:] * 1, x.clone(), x), torch.randn(3, 4))


def test_a_clone_is_its_own_memory() -> None:
    program = check(lambda x: x.clone(), torch.randn(3))
    assert program.outputs[0].buffer != program.inputs[0]  # type: ignore[union-attr]


def test_extern_results_that_are_views_of_one_storage() -> None:
    check(lambda x: torch.ops.aten.unsafe_split.Tensor(x, 2)[1] + 1, torch.randn(4, 3))


def test_reductions_without_dimensions() -> None:
    check(lambda x: (x.sum(), x.amax(), x.argmax(), x.mean(), x.all(), x.logsumexp(0)), torch.tensor(2.0))


def test_complex_numbers_run_in_aten() -> None:
    check(lambda x: (x.conj() * 2, torch.view_as_real(x)[..., 0] + 1), torch.randn(3, 4, dtype=torch.complex64))
    check(lambda x: x.mH * 2, torch.randn(2, 0, 0, dtype=torch.complex64))


def test_positions_of_extremes_are_the_first() -> None:
    x = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 1.0]])
    check(lambda x: (x.max(1), x.argmax(), x.argmin(0)), x)
    check(lambda x: (x.max(1).indices, x.argmax()), torch.tensor([[1.0, float("nan"), 3.0]]))


def test_a_nan_wins_a_pooling_window() -> None:
    x = torch.randn(1, 1, 4, 4)
    x[0, 0, 1, 1] = float("nan")
    x[0, 0, 2:, 2:] = float("-inf")
    check(lambda x: torch.ops.aten.max_pool2d_with_indices(x, [2, 2]), x)
    check(lambda x: torch.ops.aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1]), x)


def test_scatter_starts_from_a_copy() -> None:
    x, index, src = torch.randn(5, 3), torch.tensor([[0, 1, 2], [4, 4, 4]]), torch.randn(2, 3)
    check(lambda x, i, s: (x.scatter(0, i, s), x.scatter_add(0, i, s), x), x, index, src)
    check(lambda x, i, s: (x.t().scatter_add(1, i.t(), s.t()), x * 2), x, index, src)


def test_embedding_backward_accumulates() -> None:
    grad, index = torch.randn(4, 3), torch.tensor([1, 5, 1, 0])
    for padding in (-1, 1):
        check(
            lambda g, i, padding=padding: torch.ops.aten.embedding_dense_backward(g, i, 6, padding, False),
            grad,
            index,
        )


def test_assigning_a_number_under_a_mask() -> None:
    x, mask = torch.randn(4, 3), torch.tensor([True, False, True, False])
    check(lambda x, m: torch.ops.aten.index_put(x, [m], torch.tensor(0.0)), x, mask)


def test_index_out_of_range_raises() -> None:
    def f(x: Any, i: Any) -> Any:
        return x[i] + 1

    graph, _ = trace(f, torch.randn(4), torch.tensor([0, 3]))
    program = lower(graph, [])
    assert torch.equal(run_program(program, [torch.arange(4.0), torch.tensor([-1, 2])])[0], torch.tensor([4.0, 3.0]))
    with pytest.raises(IndexError):
        run_program(program, [torch.arange(4.0), torch.tensor([0, 4])])


def test_a_graph_that_writes_to_an_input_is_refused() -> None:
    graph, _ = trace(lambda x: x.add_(1), torch.randn(3))
    with pytest.raises(NotImplementedError, match="writes to its arguments"):
        lower(graph, [])


def test_nearest_upsampling_by_whole_factors() -> None:
    x = torch.randn(1, 2, 3, 4)
    program = check(lambda x: torch.nn.functional.interpolate(x, scale_factor=2) * 2, x)
    assert all(isinstance(op, LoopOp) for op in program.operations)


def _loops(program: Program) -> list[LoopOp]:
    return [op for op in program.operations if isinstance(op, LoopOp)]


def test_many_parts_of_a_cat_are_written_where_they_belong() -> None:
    sizes = [0, 3, 1, 3, 2, 1, 3, 2, 1]
    program = check(lambda *xs: torch.cat([x * 2 for x in xs], 1) + 1, *(torch.randn(2, n) for n in sizes))
    assert len(_loops(program)) == 4  # one a size, and what reads the whole
    many = check(lambda *xs: torch.cat([x * 2 for x in xs], 0), *(torch.randn(2, 3) for _ in range(30)))
    assert [len(list(op.body.stores())) for op in _loops(many)] == [24, 6]


def test_a_cat_of_many_sizes_is_one_call() -> None:
    program = check(lambda *xs: torch.cat(xs, 1), *(torch.randn(2, n) for n in range(1, 12)))
    assert not _loops(program)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_parts_of_one_size_that_somebody_wants_in_memory_are_made_at_once(dim: int) -> None:
    def f(x: Any) -> Any:
        shared = torch.exp(x)
        return torch.stack([shared + 1, shared * 2, shared.to(torch.float64)], dim)

    shared, loop = _loops(check(f, torch.randn(4, 5)))
    assert len(list(shared.body.stores())) == 1 and len(list(loop.body.stores())) == 3


def test_parts_of_one_size_that_are_reduced_are_joined_in_memory() -> None:
    def f(x: Any, y: Any) -> Any:
        return torch.nn.functional.layer_norm(torch.cat([x, y], 1), (10,))

    joined, *_ = _loops(check(f, torch.randn(4, 5), torch.randn(4, 5)))
    assert len(list(joined.body.stores())) == 2 and not joined.inner_sizes


def test_a_cat_that_is_read_by_elements_is_asked_for_them() -> None:
    (loop,) = _loops(check(lambda x, y: torch.cat([x, y], 1) * 2, torch.randn(4, 5), torch.randn(4, 5)))
    assert len(list(loop.body.stores())) == 1


def test_a_cat_of_parts_with_much_to_compute_is_written_by_parts() -> None:
    def f(*xs: Any) -> Any:
        return torch.cat([torch.nn.functional.gelu(x, approximate="tanh") for x in xs], 1).sin()

    parts = [torch.randn(4, n) for n in (5, 6, 7, 8)]
    assert len(_loops(check(f, *parts))) == 5


def test_parts_in_other_formats_keep_the_results() -> None:
    images = [torch.randn(2, 4, 3, 3).to(memory_format=torch.channels_last) for _ in range(6)]
    check(lambda *xs: torch.cat([x + 1 for x in xs], 1), *images)
    check(lambda *xs: torch.cat([x.transpose(0, 1) for x in xs], 2), *images)
    check(lambda x, *xs: (torch.cat([x * k for k in range(5)] + list(xs), 0), x + 1), *images)


def test_a_conjugate_with_holes_in_memory() -> None:
    x = torch.randn(3, 5, dtype=torch.complex64)
    check(lambda x: torch.view_as_real(x[:, 1:3].conj().clone()) + 1, x)
