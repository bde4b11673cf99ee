"""Tensors that no graph holds: a run of operations on them is one break, and what is plain before, behind and between is in graphs."""

from __future__ import annotations

import copy
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.ao.nn.quantized as quantised
import torch.distributed as dist
import torch.nn.functional as F
from dispatching import Pair
from torch import nn
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh
from torch.masked import masked_tensor

import capture
from capture import resume

Make = Callable[[], torch.Tensor]


class Scaled(torch.Tensor):
    """Asked below autograd, and differentiated through."""

    values: torch.Tensor

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, values.shape, dtype=values.dtype, strides=values.stride(), requires_grad=values.requires_grad
        )

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [each.values if isinstance(each, Scaled) else each for each in args]
        made = func(*given, **(kwargs or {}))
        return cls(made) if isinstance(made, torch.Tensor) else made


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def data() -> torch.Tensor:
    return torch.arange(12.0).reshape(3, 4) / 4


def jagged() -> torch.Tensor:
    parts = [torch.arange(8.0).reshape(2, 4), torch.arange(12.0).reshape(3, 4)]
    return torch.nested.nested_tensor(parts, layout=torch.jagged)


def strided() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.arange(8.0).reshape(2, 4), torch.arange(12.0).reshape(3, 4)])


def masked() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made: torch.Tensor = masked_tensor(data(), data() > 1)
        return made


def quantised_tensor() -> torch.Tensor:
    return torch.quantize_per_tensor(data(), 0.1, 0, torch.quint8)


KINDS: dict[str, Make] = {
    "jagged": jagged,
    "strided": strided,
    "masked": masked,
    "coo": lambda: data().to_sparse(),
    "csr": lambda: data().to_sparse_csr(),
    "mkldnn": lambda: data().to_mkldnn(),
    "wrapper": lambda: Scaled(data()).requires_grad_(),
}


def plain(value: Any) -> Any:
    """What can be compared of a value."""
    if isinstance(value, tuple | list):
        return [type(value), *map(plain, value)]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if not isinstance(value, torch.Tensor):
        return value
    facts = [type(value), value.layout, value.dtype, value.requires_grad]
    if isinstance(value, Scaled):
        return [*facts, plain(value.values)]
    if hasattr(value, "full_tensor"):
        return [*facts, plain(value.full_tensor())]
    if value.is_nested:
        return [*facts, [each.tolist() for each in value.unbind()]]
    if hasattr(value, "get_mask"):
        return [*facts, value.get_data().tolist(), value.get_mask().tolist()]
    if value.is_quantized:
        return [*facts, value.int_repr().tolist(), value.q_scale()]
    return [*facts, value.detach().to_dense().tolist()]


def check(fn: Callable[..., Any], make: Callable[[], tuple[Any, ...]], graphs: int, breaks: int) -> Any:
    """Three calls give what the plain program gives, with so many graphs and breaks."""
    capture.reset()
    compiled = capture.compile(fn)
    for _ in range(3):
        assert plain(compiled(*make())) == plain(fn(*make()))
    report = compiled.session.report
    assert (report.graph_count, report.break_count) == (graphs, breaks), str(report)
    return report


# Of every kind


def run_of_operations(t: Any) -> Any:
    x = t * 2
    y = x + x
    z = y * 0.5
    w = z + t
    return w


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


# What the language has


def calls(t: Any, w: torch.Tensor) -> Any:
    w = w + 1
    t = step(t, 2)
    t = step(t, factor=2)
    return step(t, 2), w.sin()


def step(t: Any, factor: int) -> Any:
    t = t * factor
    u = t + t
    return u * 0.5


def test_what_is_called_is_a_frame_of_its_own():
    # The first call is in the frame; the others are made for real, and what they call is captured once.
    check(calls, lambda: (jagged(), data()), graphs=2, breaks=2)


class Base(nn.Module):
    def forward(self, t: Any) -> Any:
        return t * 2


class Derived(Base):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def forward(self, t: Any) -> Any:
        t = super().forward(t)
        self.seen.append("doubled")
        t = t + t
        self.count = len(self.seen)
        scale = 3
        more = [t * scale for _ in range(2)]
        return more, (lambda: scale + self.count)()


def test_methods_closures_and_comprehensions():
    found = []
    for wrap in (lambda m: m, capture.compile):
        module = Derived()
        called = wrap(module)
        found.append([plain(called(jagged())) for _ in range(3)] + [module.seen, module.count])
    assert found[0] == found[1]


def branches(t: Any, flag: bool) -> Any:
    if t.is_nested and flag:
        t = t * 2
    elif flag:
        t = t * 3
    else:
        made = t
        t = made + made
    n = t.size(0)
    while n > 0:
        t = t + 1
        n -= 1
    return t if t.dim() > 1 else None


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("make", [jagged, strided])
def test_branches(make, flag):
    check(branches, lambda: (make(), flag), graphs=0, breaks=1)


class Settings:
    factors = ({"first": 2.0, "second": 3.0},)


def items_of_what_is_not_known(t: Any, settings: Settings) -> Any:
    t = t * 2
    factor = settings.factors[0]["first"]
    t = t + t
    return t * factor


@pytest.mark.parametrize("make", [jagged, strided])
def test_items_of_what_is_not_known_are_in_the_run(make):
    check(items_of_what_is_not_known, lambda: (make(), Settings()), graphs=0, breaks=1)


def test_effects_keep_their_order():
    log: list[Any] = []

    class Noting(list):  # type: ignore[type-arg]
        pass

    def fn(t, w, noted):
        noted.append(w.sum() > 0)
        log.append("first")
        t = t * 2
        log.append(t.is_nested)
        noted.append("second")
        t = t + 1
        noted[0] = len(log)
        w.add_(1)
        log.append("third")
        return t, w * 2

    found = []
    for each in (fn, capture.compile(fn)):
        log.clear()
        noted, w = Noting(), data()
        for _ in range(2):
            result = plain(each(jagged(), w, noted))
        found.append((result, list(log), plain(list(noted)), w.tolist()))
    assert found[0] == found[1]


def raises_within(t: Any, fails: bool) -> Any:
    x = t * 2
    y = x + x
    if fails:
        y = y + torch.ones(7, 7, 7)
    return y * 2


@pytest.mark.parametrize("make", [jagged, lambda: data().to_sparse()])
def test_exceptions_come_from_their_lines(make):
    capture.reset()
    compiled = capture.compile(raises_within)
    found = []
    for fn in (raises_within, compiled, compiled):
        with pytest.raises(RuntimeError) as raised:
            fn(make(), True)
        lines = [
            (each.name, each.line, each.colno)
            for each in traceback.extract_tb(raised.value.__traceback__)
            if each.filename == __file__
        ]
        found.append((type(raised.value), lines[1:]))
        assert plain(fn(make(), False)) == plain(raises_within(make(), False))
    assert found[0] == found[1] == found[2]


def handles(t: Any, w: torch.Tensor) -> Any:
    done = []
    for i in range(3):
        try:
            t = t * 2
            if i == 1:
                t = t + torch.ones(7, 7, 7)
            t = t + t
        except RuntimeError as error:
            done.append(type(error).__name__)
            continue
        finally:
            done.append(i)
        t = t * 0.5
    return t, done, w.sin()


@pytest.mark.parametrize("make", [jagged, lambda: data().to_sparse()])
def test_exceptions_that_are_handled(make):
    capture.reset()
    compiled = capture.compile(handles)
    for _ in range(3):
        assert plain(compiled(make(), data())) == plain(handles(make(), data()))


def refuses(t: Any, wanted: bool) -> Any:
    if wanted:
        raise ValueError("refused")
    return t * 2


def test_locals_that_an_exception_leaves_without_a_value():
    def fn(t, refused):
        done = 0
        for i in range(3):
            try:
                t = t * 2
                made = refuses(t, i in refused)
                kept = made + made
                done += 1
            except ValueError as error:
                last = str(error)
                continue
            t = kept * 0.5
        if done:
            t = kept + made
        return t, last if refused else None

    capture.reset()
    compiled = capture.compile(fn)
    for make in (jagged, lambda: data().to_sparse()):
        for refused in ((), (0,), (0, 1), (0, 1, 2), (2,)):
            assert plain(compiled(make(), refused)) == plain(fn(make(), refused))


def test_blocks():
    def fn(t, w):
        w = w * 2
        with torch.no_grad():
            x = t * 2
            x = x + x
            y = w.sin()
        z = x * 3
        return x, y, z + z, w.cos()

    make = lambda: (jagged().requires_grad_(), data().requires_grad_())  # noqa: E731
    capture.reset()
    compiled = capture.compile(fn)
    for _ in range(3):
        assert plain(compiled(*make())) == plain(fn(*make()))


def test_locals_that_have_no_value_yet():
    def fn(t, n):
        for i in range(n):
            t = t * 2
            if i == 1:
                late = t + t
        try:
            return late * 2
        except UnboundLocalError as error:
            return str(error)

    capture.reset()
    compiled = capture.compile(fn)
    for n in (0, 1, 3, 1):
        assert plain(compiled(jagged(), n)) == plain(fn(jagged(), n))


def test_cells():
    def fn(t, w):
        def scaled(by):
            return t * by + w.sum()

        t = t * 2
        before = scaled(2)
        t = t + t
        w = w.sin()
        return before, scaled(3), w

    capture.reset()
    compiled = capture.compile(fn)
    for _ in range(3):
        assert plain(compiled(jagged(), data())) == plain(fn(jagged(), data()))


def test_a_local_that_is_given_another_value_lets_go_of_the_first():
    seen: list[bool] = []

    def alive(ref):
        return ref() is not None

    def fn(t):
        x = t * 2
        seen_by = weakref.ref(x)
        y = x + x
        seen.append(alive(seen_by))
        x = y * 2
        seen.append(alive(seen_by))
        return x + y

    found = []
    for each in (fn, capture.compile(fn)):
        seen.clear()
        each(data().to_sparse())
        found.append(copy.copy(seen))
    assert found[0] == found[1]


def test_what_a_graph_could_hold_is_not_in_the_run():
    """Beside what is foreign, a plain operation ends it."""

    def fn(t, w):
        t = t * 2
        w = w.exp()
        t = t + t
        w = w.sin()
        t = t * 3
        return t, w.cos()

    report = check(fn, lambda: (jagged(), data()), graphs=3, breaks=3)
    names = [node.target for graph in report.graphs for node in graph.module.graph.nodes if node.op == "call_method"]
    assert names == ["exp", "sin", "cos"]


def test_other_breaks_are_as_they_were():
    @capture.disable
    def kept_out(x):
        return x * 2

    def fn(x):
        y = kept_out(x.sin())
        y = y.cos() * 3
        return y + kept_out(y)

    check(fn, lambda: (data(),), graphs=3, breaks=2)


def test_one_function_for_plain_tensors_and_others():
    capture.reset()
    compiled = capture.compile(run_of_operations)
    for make in (data, jagged, data, lambda: data().to_sparse(), jagged, strided, data):
        assert plain(compiled(make())) == plain(run_of_operations(make()))


def test_what_an_operation_gives_decides_at_each_call():
    def fn(t, w):
        t = t * 2
        t = t + t
        return (t * 0.5) @ w

    capture.reset()
    compiled = capture.compile(fn)
    w = torch.ones(4, 2)
    for make in (lambda: data().to_sparse(), jagged, lambda: data().to_sparse_csr(), lambda: data().to_sparse()):
        assert plain(compiled(make(), w)) == plain(fn(make(), w))


def long_run(length: int, *, end: str, begin: str = "") -> Any:
    lines = ["def fn(t, w):", begin, *(f"    t = t * {1 + i % 3 / 10}" for i in range(length)), end]
    names: dict[str, Any] = {"__name__": __name__}
    exec("\n".join(lines), names)
    return names["fn"]


def test_a_long_run_is_one_break(monkeypatch):
    """What goes on where an operation gives what graphs hold is made when one does: each is of all the rest of the function."""
    made = []
    real = resume._resume_code
    monkeypatch.setattr(resume, "_resume_code", lambda *args: made.append(args[2]) or real(*args))
    check(long_run(300, end="    return t"), lambda: (data().to_sparse(), None), graphs=0, breaks=1)
    assert len(made) <= 1


@pytest.mark.parametrize("begin", ["", "    called = lambda: t"], ids=["locals", "cells"])
def test_a_long_run_goes_on_where_a_graph_may(begin):
    fn = long_run(100, begin=begin, end="    t = t @ w\n    t = t * 2\n    t = t.relu()\n    return t + 1")
    check(fn, lambda: (data().to_sparse(), torch.ones(data().shape[1], 2)), graphs=1, breaks=1)


def test_a_run_of_more_is_cut_into_a_few():
    check(long_run(1500, end="    return t"), lambda: (data().to_sparse(), None), graphs=0, breaks=2)


def test_with_fullgraph_the_kind_is_told():
    with pytest.raises(capture.GraphBreakError, match="NestedTensor"):
        capture.compile(run_of_operations, fullgraph=True)(jagged())
