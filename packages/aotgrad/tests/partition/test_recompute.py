"""What the default partition has the backward compute again."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import aotgrad
from aotgrad.views import is_view

ROWS, COLUMNS = 256, 128
BYTES = ROWS * COLUMNS * 4


def leaf(*size: int) -> torch.Tensor:
    return torch.randn(*size).requires_grad_()


def saved_sizes(program, *inputs) -> list[tuple[int, ...]]:
    """Sizes of the large values that the forward keeps, besides inputs."""
    partition = aotgrad.partition_default(aotgrad.trace_joint(program, list(inputs)))
    results = partition.forward.graph.find_nodes(op="output")[0].args[0]
    values = [results[s.result].meta["val"] for s in partition.saved if s.result is not None]
    return [tuple(v.shape) for v in values if v.numel() * v.element_size() >= BYTES]


def scaled(x, w, scale, bias):
    """A product, which its scale's gradient needs, and what SiLU's gradient needs of it."""
    return (F.silu((x @ w) * scale + bias),)


def test_what_fused_kernels_alone_read_is_made_again():
    inputs = leaf(ROWS, 8), leaf(8, COLUMNS), leaf(COLUMNS), leaf(COLUMNS)
    assert saved_sizes(scaled, *inputs) == [(ROWS, COLUMNS)]


def test_a_cast_is_no_reader_that_keeps_it():
    """What the backward reads in float32 of halves: tanh, which a written-out GELU has."""

    def gelu(x, w, v):
        h = x @ w
        return ((0.5 * h * (1.0 + torch.tanh(0.8 * (h + 0.044715 * torch.pow(h, 3.0))))) @ v,)

    inputs = [leaf(*size).detach().half().requires_grad_() for size in ((ROWS, 8), (8, 2 * COLUMNS), (2 * COLUMNS, 8))]
    assert saved_sizes(gelu, *inputs) == [(ROWS, 2 * COLUMNS)] * 2  # what goes into it, and what comes out


def normalised(x, w, scale):
    """A root mean square norm in float32 of what halves add up to, as language models write it."""
    h = x @ w + 1
    wide = h.float()
    return h, scale * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).half() * 2


def halves(*sizes):
    return [torch.randn(*size).half().requires_grad_() for size in sizes]


def saved_bytes(program, *inputs) -> list[int]:
    """Bytes of the large values that the forward keeps, besides inputs and results."""
    partition = aotgrad.partition_default(aotgrad.trace_joint(program, list(inputs)))
    results = partition.forward.graph.output_node().args[0]
    count = len(program(*inputs))
    values = [results[s.result].meta["val"] for s in partition.saved if s.result is not None and s.result >= count]
    return sorted(size for v in values if (size := v.numel() * v.element_size()) >= BYTES)


def test_what_a_cast_widens_is_saved_in_its_place():
    inputs = halves((ROWS, 8), (8, 2 * COLUMNS), (2 * COLUMNS,))
    # Not in float32 what is normalised; and not what is scaled, which that tells.
    assert saved_bytes(lambda *each: normalised(*each)[1:], *inputs) == [BYTES]
    assert saved_bytes(normalised, *inputs) == []  # a result, which lives on anyway


def test_a_cast_that_a_product_reads_is_saved():
    def run(x, w, v):
        return ((x @ w).float() @ v,)

    inputs = [*halves((ROWS, 8), (8, COLUMNS)), leaf(COLUMNS, 2)]
    assert saved_bytes(run, *inputs) == [BYTES]


def test_a_cast_of_a_view_of_what_is_saved_anyway_is_not():
    def run(x, w, v):
        h = (x @ w).sin()
        return h @ v, h.view(-1).float().sin()

    assert saved_bytes(run, *halves((ROWS, 8), (8, 2 * COLUMNS), (2 * COLUMNS, 2))) == [BYTES] * 2


def shared_keys(x, w, query):
    """Keys that three heads share, repeated for the product."""
    keys = (x @ w).sin().view(4, ROWS // 4, COLUMNS)
    repeated = keys[:, None].expand(4, 3, ROWS // 4, COLUMNS).reshape(12, ROWS // 4, COLUMNS)
    return (torch.bmm(query, repeated.transpose(1, 2)),)


SHARED = (ROWS, 8), (8, COLUMNS), (12, 5, COLUMNS)


def test_repeated_elements_are_saved_once():
    assert (
        saved_bytes(shared_keys, *map(leaf_of, SHARED)) == [BYTES] * 2
    )  # the keys, and the product that they are made of


def test_an_input_that_is_repeated_may_be_written_to(interpreter):
    """The copy is saved, since the program may write to the input before the backward."""
    keys, query = torch.randn(4, ROWS, COLUMNS), leaf(12, 5, COLUMNS)

    def run(keys, query):
        repeated = keys[:, None].expand(4, 3, ROWS, COLUMNS).reshape(12, ROWS, COLUMNS)
        return (torch.bmm(query, repeated.transpose(1, 2)),)

    compiled = aotgrad.compile(run, [keys, query], inference_compiler=interpreter)
    (expected,) = torch.autograd.grad(run(keys, query)[0].sum(), query)
    (out,) = compiled(keys, query)
    keys.zero_()
    out.sum().backward()
    torch.testing.assert_close(query.grad, expected, rtol=1e-5, atol=1e-4)  # a library's sums, of other strides


def leaf_of(size):
    return leaf(*size)


@pytest.mark.parametrize(
    ("program", "inputs"),
    [(normalised, halves((ROWS, 8), (8, COLUMNS), (COLUMNS,))), (shared_keys, [*map(leaf_of, SHARED)])],
)
def test_gradients_of_copies(check, program, inputs):
    check(program, *inputs)


def test_gradients(check):
    check(scaled, leaf(ROWS, 8), leaf(8, COLUMNS), leaf(COLUMNS), leaf(COLUMNS))


def test_what_a_product_reads_is_saved():
    def run(x, w, scale, v):
        return (F.silu((x @ w) * scale) @ v,)

    inputs = leaf(ROWS, 8), leaf(8, COLUMNS), leaf(COLUMNS), leaf(COLUMNS, 2)
    assert saved_sizes(run, *inputs) == [(ROWS, COLUMNS)] * 2  # the product, and what SiLU made


def test_nothing_is_made_of_more_memory_than_it_has():
    def run(x, y, w):
        return (((x @ w).sin() + (y @ w).sin()).sin(),)

    sizes = saved_sizes(run, leaf(ROWS, 8), leaf(ROWS, 8), leaf(8, COLUMNS))
    assert len(sizes) == 3


def test_no_large_input_is_saved_for_it(interpreter):
    """The program may write to an input before the backward."""
    x, y = leaf(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)
    run = aotgrad.compile(lambda x, y: ((x + y).sin(),), [x, y], inference_compiler=interpreter)
    expected = torch.cos(x.detach() + y)
    (out,) = run(x, y)
    y.zero_()
    out.sum().backward()
    torch.testing.assert_close(x.grad, expected)


def test_a_written_input_is_not_read_again(check):
    def run(x, w, bias):
        y = (x @ w).sin() + bias
        bias.zero_()
        return (F.silu(y),)

    check(run, leaf(ROWS, 8), leaf(8, COLUMNS), torch.randn(COLUMNS))


@pytest.mark.parametrize("rate", [0.5])
def test_random_numbers_are_not_drawn_again(check, rate):
    check(lambda x, w: (F.silu(F.dropout(x @ w, rate) * 2),), leaf(ROWS, 8), leaf(8, COLUMNS))


def chained(x):
    return (x * x * 1.7 - x) * 1.3 + 1


COMPARED = {
    "largest": lambda x, w: (chained(x).amax(1), chained(x) @ w),
    "largest of all": lambda x, w: (chained(x).view(-1).max(), chained(x) @ w),
    "scattered": lambda x, w: (
        x.scatter_reduce(0, torch.arange(300).flip(0)[:, None].expand(-1, 300), chained(x), "amax"),
    ),
    "larger": lambda x, w: (torch.maximum(x, chained(x)),),
}


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.parametrize("partitioner", [aotgrad.partition_default, aotgrad.partition_min_cut])
def test_what_is_looked_for_among_others_is_not_made_again(name, partitioner):
    """Rounded otherwise it would not be found, and the gradient divided by how often it is there: by zero."""
    partition = partitioner(aotgrad.trace_joint(COMPARED[name], [leaf(300, 300), torch.randn(300, 2)]))
    comparisons = partition.backward.graph.find_nodes(op="call_function", target=torch.ops.aten.eq.Tensor)
    assert comparisons
    for node in [argument for comparison in comparisons for argument in comparison.all_input_nodes]:
        while is_view(node.target) or node.target is torch.ops.aten.gather.default:
            node = node.args[0]
        assert node.op == "placeholder", partition.backward.graph
