"""Rows that the backward picks again out of something much smaller."""

from __future__ import annotations

import pytest
import torch

import aotgrad

NODES, EDGES, COLUMNS = 64, 2048, 64


def leaf(*size: int) -> torch.Tensor:
    return torch.randn(*size, dtype=torch.float64).requires_grad_()


def ends(count: int = NODES) -> torch.Tensor:
    return torch.randint(0, count, (EDGES,))


def saved(program, *inputs) -> list[tuple[int, ...]]:
    """Sizes of what the forward keeps of its own; the gradients are eager's."""
    partition = aotgrad.partition_default(aotgrad.trace_joint(program, list(inputs)))
    results = partition.forward.graph.output_node().args[0]
    chosen = [results[each.result].meta["val"] for each in partition.saved if each.result is not None]
    compiled = aotgrad.compile(
        program, inputs, inference_compiler=lambda graph, given: lambda args: graph.forward(*args)
    )
    leaves = [each for each in inputs if each.requires_grad]
    for mine, theirs in zip(
        torch.autograd.grad(compiled(*inputs)[0].square().sum(), leaves),
        torch.autograd.grad(program(*inputs)[0].square().sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)
    return [tuple(value.shape) for value in chosen]


def messages(x, w, weights, edges):
    """What each edge carries of the node that it comes from, weighted by the edge."""
    h = torch.tanh(x @ w)
    return (h[edges] * weights[:, None],)


def weighted(program):
    return saved(program, leaf(NODES, 8), leaf(8, COLUMNS), leaf(EDGES), ends())


def test_rows_are_picked_again_of_what_is_saved():
    assert weighted(messages) == [(NODES, COLUMNS)]


@pytest.mark.parametrize(
    "pick",
    [
        lambda h, edges: h.index_select(0, edges),
        lambda h, edges: torch.nn.functional.embedding(edges, h),
        lambda h, edges: h[None][:, edges][0],
        lambda h, edges: h.view(NODES, 4, COLUMNS // 4)[edges].view(EDGES, COLUMNS),
    ],
)
def test_however_they_are_picked_and_seen(pick):
    assert weighted(lambda x, w, weights, edges: (pick(torch.tanh(x @ w), edges) * weights[:, None],)) == [
        (NODES, COLUMNS)
    ]


def test_what_a_product_reads_is_saved():
    def run(x, w, v, edges):
        return (torch.tanh(x @ w)[edges] @ v,)

    assert (EDGES, COLUMNS) in saved(run, leaf(NODES, 8), leaf(8, COLUMNS), leaf(COLUMNS, 4), ends())


def test_single_numbers_are_saved():
    """Picked one by one each would take as much of a GPU's memory bandwidth as a whole row."""

    def run(x, w, weights, edges):
        return (torch.tanh(x @ w)[:, edges] * weights,)

    assert saved(run, leaf(32, 8), leaf(8, NODES), leaf(EDGES), ends()) == [(32, NODES), (32, EDGES)]


def test_rows_of_something_as_large_are_saved():
    def run(x, w, weights, edges):
        return (torch.tanh(x @ w)[edges] * weights[:, None],)

    found = saved(run, leaf(EDGES, 8), leaf(8, COLUMNS), leaf(EDGES), ends(EDGES))
    assert found == [(EDGES, COLUMNS), (EDGES, COLUMNS)]


def test_an_input_that_may_change_until_then_is_not_read_again():
    """Eager has what was picked, and lets the program write to what it was picked of."""

    def run(x, weights, edges):
        return (x[edges] * weights[:, None],)

    assert saved(run, leaf(NODES, COLUMNS), leaf(EDGES), ends()) == [(EDGES, COLUMNS)]


def test_what_is_written_to_later_is_picked_of_its_old_values():
    def run(x, w, weights, edges):
        h = x @ w
        picked = h[edges]
        h.mul_(2)
        return (picked * weights[:, None] + h[:1],)

    weighted(run)


def test_a_result_that_may_change_until_then_is_not_read_again():
    def run(x, w, weights, edges):
        h = x @ w
        return h[edges] * weights[:, None], h.view(-1)

    inputs = leaf(NODES, 8), leaf(8, COLUMNS), leaf(EDGES), ends()
    found = []
    for function in (
        aotgrad.compile(run, inputs, inference_compiler=lambda graph, given: lambda args: graph.forward(*args)),
        run,
    ):
        picked, nodes = function(*inputs)
        with torch.no_grad():
            nodes.zero_()
        found.append(torch.autograd.grad(picked.square().sum(), inputs[:3]))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("pick", [lambda h: h.topk(32, 1), lambda h: h.sort(1), lambda h: h.max(1, keepdim=True)])
def test_one_of_several_results_is_saved_and_not_all(pick):
    """The backward gets tensors, and no tuples of them."""

    def run(x, w, weights, edges):
        return (pick(x @ w)[0][edges] * weights[:, None],)

    partition = aotgrad.partition_default(
        aotgrad.trace_joint(run, [leaf(NODES, 8), leaf(8, COLUMNS), leaf(EDGES), ends()])
    )
    placeholders = partition.backward.graph.find_nodes(op="placeholder")
    assert all(isinstance(node.meta["val"], torch.Tensor) for node in placeholders)
    assert (EDGES, COLUMNS) not in weighted(run)
