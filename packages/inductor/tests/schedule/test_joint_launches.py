"""Kernels that need not wait for each other run by one launch, in whatever order: results stay, and no part sees what another writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inductor_dynamic import trace_dynamic
from inductor_joining import Joining
from inductor_tracing import default_tolerance, trace

from inductor import CompiledGraph, InterpretedWarning, Kernel, Options, ReferenceBackend, compile_graph, schedule
from inductor.ir.operations import Load
from inductor.lower import lower
from inductor.stored import files_of, parts_of
from inductor.traits import DeviceTraits

ORDERS: list[Callable[[range], Sequence[int]]] = [list, lambda parts: parts[::-1]]
SIZES = [(6, 8), (5,), (4, 3), (7, 2), (1,), ()]


def tensors(sizes: Sequence[tuple[int, ...]], dtype: torch.dtype = torch.float32, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(size, generator=generator) + 2).to(dtype) for size in sizes]


def check(
    function: Callable[..., Any],
    *inputs: torch.Tensor,
    writes: dict[int, int] | None = None,
    options: Options | None = None,
) -> CompiledGraph:
    """Assert eager's results in each order of the parts, and that other inputs are left alone."""
    for order in ORDERS:
        graph, expected = trace(function, *inputs)
        graph.graph.output_node().meta["writes"] = writes or {}
        given = [value.clone(memory_format=torch.preserve_format) for value in inputs]
        compiled = compile_graph(graph, inputs, options, backends={"cpu": Joining(order)})
        for got, want in zip(compiled(list(given)), expected, strict=True):
            torch.testing.assert_close(got, want, equal_nan=True, **default_tolerance(want.dtype))
        new = {place: expected[at] for at, place in (writes or {}).items() if at in compiled.written_results}
        for place, (value, before) in enumerate(zip(given, inputs, strict=True)):
            torch.testing.assert_close(value, new.get(place, before), equal_nan=True, **default_tolerance(value.dtype))
    return compiled


def each(*xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tanh(x) * 2 for x in xs)


def test_parts_of_many_sizes_are_one_body() -> None:
    backend, inputs = Joining(), tensors([(6, 8), (5,), (4, 3), (7, 2)])
    compiled = compile_graph(trace(each, *inputs)[0], inputs, backends={"cpu": backend})
    assert compiled.stats.launches == 1
    (joint,) = backend.joint
    assert len(joint.kernels) == 1 and [part.known for part in joint.parts] == [(48,), (5,), (12,), (14,)]
    torch.testing.assert_close(compiled(list(inputs)), each(*inputs))


def test_what_differs_is_beside_it_where_it_is_small() -> None:
    assert check(each, *tensors(SIZES)).stats.launches == 1
    many = [f for f in (torch.sin, torch.exp, torch.relu, torch.tanh) for _ in range(1)]

    def others(*xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(f(x) for f, x in zip(many, xs, strict=True))

    assert check(others, *tensors([(3,), (4,), (5,), (6,)])).stats.launches == 1


def test_the_option_and_the_device_say_whether() -> None:
    inputs = tensors(SIZES)
    assert check(each, *inputs, options=Options(joint_launches=False)).stats.launches == len(inputs)
    graph = trace(each, *inputs)[0]
    assert compile_graph(graph, inputs, backends={"cpu": ReferenceBackend()}).stats.launches == len(inputs)


def test_the_wrapper_tells_what_the_parts_are() -> None:
    source = check(each, *tensors([(3,), (4,), (5,)])).source
    assert "# 3 kernels by one launch" in source
    launch = source.partition("cpu_together_0(\n")[2].partition("    )\n")[0]
    assert launch.count("        # ") == 3 and "tanh_default" in launch


def test_what_waits_for_another_comes_in_a_later_launch() -> None:
    def f(*xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        sums = [(x * x).sum() for x in xs]
        total = torch.stack(sums).sum().sqrt()
        return tuple(x / total for x in xs)

    compiled = check(f, *tensors([(6, 8), (5,), (4, 3), (7, 2)]))
    assert compiled.source.count("by one launch") == 2


def test_a_kernel_waits_for_what_others_of_its_launch_need() -> None:
    def f(*xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.mm(x, x)[:1] * 2 + len(x) for x in xs)

    compiled = check(f, *tensors([(4, 4), (5, 5), (6, 6)]))
    assert compiled.stats.launches == 1 and compiled.source.index("_0(\n") > compiled.source.rindex("mm(")


def test_kernels_that_check_positions_stay_outside() -> None:
    at = torch.tensor([1, 0, 2])

    def f(at: torch.Tensor, *xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x[at[: k + 1]] * 2 for k, x in enumerate(xs))

    assert check(f, at, *tensors([(3,), (4,), (5,)])).stats.launches == 3


def test_what_the_backend_cannot_print_stays_outside() -> None:
    class Partial(Joining):
        def supports(self, kernel: Kernel) -> bool:
            return all(getattr(op, "primitive", None) != "sin" for op in kernel.body.ops)

    def f(*xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.sin(xs[0]), *(torch.exp(x) for x in xs[1:])

    inputs = tensors([(3,), (4,), (5,)])
    with pytest.warns(InterpretedWarning):
        compiled = compile_graph(trace(f, *inputs)[0], inputs, backends={"cpu": Partial()})
    assert compiled.stats.launches == 2 and compiled.stats.interpreted == 1
    torch.testing.assert_close(compiled(list(inputs)), f(*inputs))


def test_nobody_overwrites_what_another_part_reads() -> None:
    """Each writes where it lies, but for what others read in the same launch."""

    def f(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, y * x[:3].flip(0), z.exp()

    compiled = check(f, *tensors([(6,), (3,), (3, 4)]), writes={0: 0, 1: 1, 2: 2})
    assert compiled.written_results == {0, 1, 2} and compiled.stats.launches == 2

    def swapped(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x.view(2, 3) + y).view(6), y * x[:3].flip(0), z.exp()

    compiled = check(swapped, *tensors([(6,), (3,), (3, 4)]), writes={0: 0, 1: 1, 2: 2})
    assert len(compiled.written_results) == 2, "one of the two needs the other's old content"


def test_no_part_writes_over_what_another_one_reads() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = torch.mm(x, x)
        return made[:3].flip(0) * 2, made + 1  # the last reader of `made` might write over it

    compiled = check(f, *tensors([(4, 4)]))
    assert compiled.stats.launches == 1


def test_memory_that_dies_with_a_part_is_free_after_the_launch() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second = torch.mm(x, x), torch.mm(y, y)
        return first.flip(0)[:3] * 2, second + second.flip(0)  # needs as much memory as the first gives up

    compiled = check(f, *tensors([(4, 4), (4, 4)]))
    assert compiled.stats.launches == 1


def test_batches_do_not_add_to_the_peak() -> None:
    """Large results that are read right away are not made all at once."""

    def f(*xs: torch.Tensor) -> torch.Tensor:
        total = torch.mm(xs[0], xs[0])
        for x in xs[1:]:
            total = torch.mm(total, x * 2)
        return total

    inputs = tensors([(640, 640)] * 5)
    graph, _ = trace(f, *inputs)
    traits = DeviceTraits(joins=2)
    assert not schedule(lower(graph, inputs), traits=lambda _: traits).batches


def test_dynamic_sizes() -> None:
    def f(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * 2 + x.shape[0], y * 2 + y.shape[0], z.sum(-1)  # a row of any length is a kernel of its own

    graph, fakes = trace_dynamic(f, *tensors([(6, 8), (5,), (4, 3)]))
    compiled = compile_graph(graph, fakes, backends={"cpu": Joining(ORDERS[1])})
    assert compiled.stats.launches == 2
    for sizes in ([(6, 8), (5,), (4, 3)], [(2, 3), (9,), (5, 7)]):
        inputs = tensors(sizes)
        torch.testing.assert_close(compiled(list(inputs)), f(*inputs))


def test_a_stored_graph_has_its_joint_kernels() -> None:
    from inductor import api

    inputs = tensors(SIZES)
    made = []
    init = CompiledGraph.__init__
    graph = trace(each, *inputs)[0]

    class Spy(CompiledGraph):
        __slots__ = ()

        def __init__(self, parts: Any, *rest: Any) -> None:
            made.append(parts)
            init(self, parts, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "CompiledGraph", Spy)
        compile_graph(graph, inputs, backends={"cpu": Joining()})
    (parts,) = made
    read = parts_of(files_of(parts))
    assert read is not None and read.modules == parts.modules and read.modules[0].joint


Chain = st.tuples(st.integers(0, 5), st.lists(st.integers(0, 99), min_size=1, max_size=4), st.booleans())
STEPS: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    lambda x, y: x * 0.5 + 1,
    lambda x, y: torch.tanh(x),
    lambda x, y: x + y.sum(),
    lambda x, y: x.flip(0) if x.dim() else x,
    lambda x, y: x * y if x.shape == y.shape else x,
    lambda x, y: x - x.amax(-1, keepdim=True) if x.dim() else x,
    lambda x, y: torch.mm(x, x.t())[:, : x.shape[1]] + 0 if x.dim() == 2 and x.shape[1] <= x.shape[0] else x * 2,
]


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(chains=st.lists(Chain, min_size=2, max_size=6), reuse=st.booleans())
def test_random_chains(chains, reuse) -> None:
    """Chains of steps that look at each other's inputs; of some the end is the input's new content."""
    inputs = tensors([SIZES[which] for which, _, _ in chains])

    def f(*xs: torch.Tensor) -> list[torch.Tensor]:
        ends = []
        for at, (_, steps, _) in enumerate(chains):
            value = xs[at]
            for step in steps:
                value = STEPS[step % len(STEPS)](value, xs[step % len(xs)])
            ends.append(value + 0)
        return ends

    same = [at for at, end in enumerate(f(*inputs)) if end.shape == inputs[at].shape and chains[at][2]]
    check(f, *inputs, writes={at: at for at in same}, options=Options(reuse_memory=reuse))


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(chains=st.lists(Chain, min_size=2, max_size=6))
def test_parts_share_no_memory_that_is_written(chains) -> None:
    inputs = tensors([SIZES[which] for which, _, _ in chains])

    def f(*xs: torch.Tensor) -> list[torch.Tensor]:
        ends = list(xs)
        for at, (_, steps, _) in enumerate(chains):
            for step in steps:
                ends[at] = STEPS[step % len(STEPS)](ends[at], xs[step % len(xs)])
        return [end + 0 for end in ends]

    graph, expected = trace(f, *inputs)
    writes = {at: at for at, end in enumerate(expected) if end.shape == inputs[at].shape and chains[at][2]}
    traits = DeviceTraits(joins=2)
    plan = schedule(lower(graph, inputs, writes=writes), traits=lambda _: traits)
    for batch in plan.batches:
        touched = []
        for at in batch.steps:
            step = plan.steps[at]
            reads = {op.buffer for op in step.loop.body.ops if isinstance(op, Load)}  # type: ignore[union-attr]
            reads |= {source for _, source in step.loop.initial}  # type: ignore[union-attr]
            written = {_place(plan.memory.reused, name) for name in step.loop.writes}  # type: ignore[union-attr]
            touched.append((written, {_place(plan.memory.reused, name) for name in reads}))
        for one, (written, _) in enumerate(touched):
            for other, (also, read) in enumerate(touched):
                assert one == other or written.isdisjoint(also | read), str(plan)


def _place(reused: dict[str, str], name: str) -> str:
    while name in reused:
        name = reused[name]
    return name
