"""Tensors that no graph holds: a run of operations on them is one break, and what is plain before, behind and between is in graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.ao.nn.quantized as quantised
import torch.distributed as dist
import torch.nn.functional as F
from dispatching import Pair
from no_graph_holds import (
    KINDS,
    Scaled,
    check,
    data,
    jagged,
    masked,
    plain,
    quantised_tensor,
    run_of_operations,
    strided,
)
from torch import nn
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

import capture


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


# Of every kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_operations_is_one_break(kind):
    report = check(run_of_operations, lambda: (KINDS[kind](),), graphs=0, breaks=1)
    assert report.breaks[0].cause.id == "B302"
    assert report.breaks[0].user_line.endswith("in run_of_operations")


def mixed(t: Any, w: torch.Tensor) -> Any:
    a = w.sin() + 1
    x = t * 2
    y = x + x
    z = y * 0.5
    b = a.cos() * w
    return z, b


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_plain_before_and_behind_is_captured(kind):
    report = check(mixed, lambda: (KINDS[kind](), data()), graphs=2, breaks=1)
    assert [len(graph.module.graph.find_nodes(op="call_method", target="cos")) for graph in report.graphs] == [0, 1]
    assert [len(graph.module.graph.find_nodes(op="call_method", target="sin")) for graph in report.graphs] == [1, 0]


def in_a_loop(t: Any) -> Any:
    for i in range(6):
        t = t * 2
        t = t + t
        if i > 3:
            t = t * 0.25
    return t


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_is_one_break(kind):
    check(in_a_loop, lambda: (KINDS[kind](),), graphs=0, breaks=1)


@pytest.mark.parametrize("fn", [run_of_operations, in_a_loop])
def test_distributed_tensors(mesh, fn):
    check(fn, lambda: (distribute_tensor(data(), mesh, [Replicate()]),), graphs=0, breaks=1)


def test_distributed_tensors_and_what_is_plain(mesh):
    def fn(t, w):
        w = w.sin()
        y = (t @ t.t()).relu()
        local = (y * 2).to_local()
        return local.cos() @ w

    report = check(fn, lambda: (distribute_tensor(data(), mesh, [Replicate()]), data()), graphs=2, breaks=1)
    assert len(report.graphs[1].module.graph.find_nodes(op="call_method", target="cos")) == 1


# Where a result is plain, a graph goes on


def padded(t: Any) -> Any:
    x = t * 2
    x = x + 1
    p = torch.nested.to_padded_tensor(x, 0.0)
    return F.relu(p * 3 - 4).sum()


@pytest.mark.parametrize("make", [jagged, strided])
def test_nested_tensors_that_are_padded(make):
    report = check(padded, lambda: (make(),), graphs=1, breaks=1)
    assert {node.name for node in report.graphs[0].module.graph.nodes if node.op.startswith("call")} >= {"mul", "relu"}


def sparse_products(s: Any, x: torch.Tensor) -> Any:
    h = x.sin()
    s = s * 2
    s = s + s
    h = torch.sparse.mm(s, h)
    return torch.relu(h) + 1


@pytest.mark.parametrize("make", [lambda: torch.eye(3).to_sparse(), lambda: torch.eye(3).to_sparse_csr()])
def test_sparse_products(make):
    check(sparse_products, lambda: (make(), data()), graphs=2, breaks=1)


def quantises(x: torch.Tensor) -> Any:
    h = x * 2 + 1
    q = torch.quantize_per_tensor(h, 0.1, 0, torch.quint8)
    q = torch.relu(q)
    q = q.reshape(-1)[:4]
    return q.dequantize().sin() + 1


def test_what_makes_such_a_tensor_begins_the_run():
    check(quantises, lambda: (data(),), graphs=2, breaks=1)
    check(lambda x: (x * 2).to_mkldnn().relu().reshape(-1).to_dense().sin(), lambda: (data(),), graphs=2, breaks=1)


def test_quantised_tensors():
    def fn(q):
        q = torch.relu(q)
        q = q.reshape(-1)
        return q[:4].dequantize() + 1

    check(fn, lambda: (quantised_tensor(),), graphs=1, breaks=1)


class Quantised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.take = quantised.Quantize(0.1, 0, torch.quint8)
        self.first = quantised.Linear(4, 4)
        self.second = quantised.Linear(4, 4)
        self.give = quantised.DeQuantize()
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.take(x * 2)
        x = self.first(x)
        x = torch.relu(x)
        x = self.second(x)
        x = self.give(x)
        result: torch.Tensor = self.head(x).relu()
        return result


def test_quantised_modules():
    # What a module's scales hold, which are tensors of one number, is guarded: that is no break.
    try:
        torch.quantize_per_tensor(torch.empty(2, device="meta"), 0.1, 0, torch.quint8)
        causes = ["B310", "B302"]
    except NotImplementedError:  # no graph has the first one
        causes = ["B301"]
    report = check(Quantised().eval(), lambda: (data(),), graphs=2, breaks=len(causes))
    assert [each.cause.id for each in report.breaks] == causes


def test_a_result_of_several():
    def fn(t):
        t = t * 2
        first, second = t.unbind()
        return first.sin() + 1, second.cos() * 2

    check(fn, lambda: (jagged(),), graphs=1, breaks=1)


def test_in_a_loop_that_has_both():
    def fn(ts, w):
        found = []
        for t in ts:
            y = torch.relu(t * 2)
            w = w + torch.sparse.mm(y, w).cos()
            found.append(y)
        return found, w

    capture.reset()
    compiled = capture.compile(fn)
    for _ in range(2):
        ts = [torch.eye(3).to_sparse() for _ in range(3)]
        assert plain(compiled(ts, data())) == plain(fn(ts, data()))
    assert compiled.session.report.graph_count


# Gradients


def learns(t: Any, w: torch.Tensor) -> torch.Tensor:
    h = w.sin()
    x = t * 2
    x = x + x
    p = torch.nested.to_padded_tensor(x, 0.0)
    return (p * h.cos()).sum()


def test_gradients_through_nested_tensors():
    capture.reset()
    compiled = capture.compile(learns)
    found = []
    for fn in (learns, compiled, compiled):
        t, w = jagged().requires_grad_(), torch.ones(4, requires_grad=True)
        fn(t, w).backward()
        assert t.grad is not None
        found.append(plain([t.grad, w.grad]))
    assert found[0] == found[1] == found[2]
    report = compiled.session.report
    assert (report.graph_count, report.break_count) == (2, 1), str(report)


def test_gradients_through_sparse_products():
    capture.reset()
    compiled = capture.compile(sparse_products)
    found = []
    for fn in (sparse_products, compiled, compiled):
        s, x = torch.eye(3).to_sparse().requires_grad_(), data().requires_grad_()
        fn(s, x).sum().backward()
        assert s.grad is not None
        found.append(plain([s.grad, x.grad]))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("make", [lambda: Scaled(data()), masked], ids=["wrapper", "masked"])
def test_gradients_through_classes(make):
    def fn(t):
        return (run_of_operations(t) * t).sum()

    capture.reset()
    compiled = capture.compile(fn)
    found = []
    for each in (fn, compiled, compiled):
        t = make().requires_grad_()
        each(t).backward()
        assert t.grad is not None
        found.append(plain(t.grad))
    assert found[0] == found[1] == found[2]


def test_gradients_of_distributed_tensors(mesh):
    capture.reset()
    compiled = capture.compile(run_of_operations)
    found = []
    for each in (run_of_operations, compiled, compiled):
        t = distribute_tensor(data(), mesh, [Replicate()]).requires_grad_()
        each(t).sum().backward()
        found.append(plain(t.grad))
    assert found[0] == found[1] == found[2]


def test_classes_whose_operations_are_captured_are_left_to_graphs():
    def fn(x, y):
        a = x.t()  # handed out, a view, of which more is known than is made again
        b = y * 2
        return a, (b + y).sin()

    report = check_pairs(fn)
    assert report.break_count == 1
    assert sum(
        graph.module.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default) != []
        for graph in report.graphs
    )


def check_pairs(fn: Callable[..., Any]) -> Any:
    capture.reset()
    compiled = capture.compile(fn)
    for _ in range(2):
        pairs = [Pair(data(), data() + 1) for _ in range(2)]
        expected, found = fn(*pairs), compiled(*pairs)
        assert [(each.a.tolist(), each.b.tolist()) for each in expected] == [
            (each.a.tolist(), each.b.tolist()) for each in found
        ]
    return compiled.session.report
