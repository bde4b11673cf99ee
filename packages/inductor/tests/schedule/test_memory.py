"""Memory of dead buffers is used again, and nothing is overwritten that is still read."""

import sys

import pytest
import torch
from inductor_schedules import check_schedule, run, scheduled
from inductor_tracing import trace

from inductor import Options, lower, schedule
from inductor.schedule.nodes import build
from inductor.schedule.order import alive

X = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))


def chain(x: torch.Tensor) -> torch.Tensor:
    for _ in range(5):
        x = torch.mm(x, x).tanh()
    return x


def test_a_chain_needs_few_buffers() -> None:
    plan = check_schedule(chain, X)
    allocated = {
        n for s in plan.steps for n in (s.loop if hasattr(s, "loop") else s.op).writes
    } - plan.memory.reused.keys()
    assert len(allocated) == 2, str(plan)


def test_in_place_only_over_own_memory() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    plan = check_schedule(f, X)
    assert not plan.memory.inplace


def test_not_in_place_over_what_an_output_shows() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.mm(x, x)
        return y.t(), y.exp()

    check_schedule(f, X)


def test_not_in_place_where_elements_are_read_elsewhere() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.mm(x, x)
        return y + y.flip(0)

    plan = check_schedule(f, X)
    assert not plan.memory.inplace


def test_not_in_place_when_read_in_a_later_pass() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.mm(x, x)
        z = y.exp()  # stored in the first walk over a row
        return z, y - z.sum(-1, keepdim=True)  # y is read again in the second

    check_schedule(f, X)


def test_scatter_adopts_the_dying_buffer() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.mm(x, x)
        return y.index_put((torch.tensor([0, 2, 0]),), x[:3], accumulate=True)

    check_schedule(f, X)


def test_scatter_leaves_the_input_alone() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.mm(x, x)
        return x.index_put((torch.tensor([0, 2, 0]),), x[:3], accumulate=True), y.slice_scatter(x[:2], 0, 1, 3), y

    check_schedule(f, X)


def test_results_do_not_depend_on_planning() -> None:
    for options in (Options(reuse_memory=False), Options(inplace=False), Options(fuse=False), Options()):
        check_schedule(chain, X, options=options)


def test_calls_do_not_share_memory() -> None:
    plan = scheduled(chain, X)
    (first,), (second,) = run(plan, X), run(plan, X * 2)
    assert first.data_ptr() != second.data_ptr()
    torch.testing.assert_close(first, chain(X))


def test_inputs_are_freed_early() -> None:
    plan = scheduled(chain, X)
    assert "arg0" in plan.memory.frees[0]


def test_memory_is_not_held_for_long() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.mm(x, x)
        for _ in range(3):
            y = torch.mm(y, torch.mm(y[:3].t(), y[:3]))  # other sizes in between
        return y.cumsum(0).exp()

    assert check_schedule(f, X).memory.reused
    assert not check_schedule(f, X, options=Options(reuse_window=0, inplace=False)).memory.reused


def test_what_is_held_does_not_add_to_the_peak() -> None:
    def f(x: torch.Tensor, w: torch.Tensor, peak: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = torch.mm(x, x)
        one = torch.mm(first[:1], first[:, :1])
        between = torch.mm(x, w)
        another = torch.mm(between, between[:1].t())
        third = torch.mm(x, x)
        large = torch.addmm(third[:1, :1], peak, peak)  # so that none of the results can wait for it
        return third, one, another, torch.mm(large, large[:, :1])

    wide, small, large = torch.rand(6, 18), torch.rand(1, 1), torch.rand(12, 12)  # nothing cancels out
    assert not check_schedule(f, X, wide, small).memory.reused  # the wide one is the peak: nothing goes with it
    assert check_schedule(f, X, wide, large).memory.reused  # which comes later anyway


def test_inputs_that_nobody_else_holds_are_memory_too() -> None:
    """While they are there, nothing may be held beside them; once they have gone there is room."""

    def f(saved: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        start = torch.mm(saved, saved[:, :1])
        first = torch.mm(x, x)
        one = torch.mm(first[:1], first[:, :1])
        between = torch.mm(x, w)
        another = torch.mm(between, between[:1].t())
        return torch.mm(x, x), start, one, another

    inputs = (torch.randn(30, 30), X, torch.randn(6, 18))
    for private, held in (((), False), ((0,), True)):
        graph, _ = trace(f, *inputs)
        graph.graph.output_node().meta["private_inputs"] = private
        plan = schedule(lower(graph, inputs))
        assert bool(plan.memory.reused) is held


def test_what_frees_such_inputs_runs_before_the_worst_moment() -> None:
    def f(saved: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide = torch.mm(x[:, :1], torch.mm(x[:1], x).repeat(1, 20))
        return torch.mm(wide, wide[:1].t()), torch.mm(saved, saved[:, :1])

    inputs = (torch.randn(30, 30), X)
    for private, first in (((), False), ((0,), True)):
        graph, expected = trace(f, *inputs)
        graph.graph.output_node().meta["private_inputs"] = private
        plan = schedule(lower(graph, inputs))
        freed = [at for at, names in enumerate(plan.memory.frees) if "arg0" in names]
        assert freed == ([0] if first else [len(plan.steps) - 1])
        for value, wanted in zip(run(plan, *inputs), expected, strict=True):
            torch.testing.assert_close(value, wanted)


def test_an_input_that_nobody_reads_takes_no_room() -> None:
    """A gradient may be known without what it was thought to need, and the graph is its only holder."""

    def f(unread: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return chain(x)

    inputs = torch.randn(30, 30), X
    graph, (expected,) = trace(f, *inputs)
    graph.graph.output_node().meta["private_inputs"] = (0,)
    plan = schedule(lower(graph, inputs))
    assert plan.memory.reused
    torch.testing.assert_close(run(plan, *inputs)[0], expected)


def test_of_orders_with_one_worst_moment_the_one_with_less_memory_in_all() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scattered = torch.zeros(100, 64).index_add(
            0, index, x
        )  # estimated as if the zeros and the sums were both there
        small = scattered.square().sum()
        first, second = x @ y, x @ z
        return small, second.sum(), first.sum()

    x, y, z = (torch.randint(3, (64, width)).float() for width in (64, 80, 72))  # sums are exact
    inputs = (x, y, z, torch.arange(64))
    lines = str(scheduled(program, *inputs)).splitlines()
    second = next(at for at, line in enumerate(lines) if "in arg2" in line)
    assert sum("_sum" in line for line in lines[:second]) == 2, lines  # of the first product, too
    check_schedule(program, *inputs)


def test_large_results_that_nothing_waits_for_come_behind_the_worst_moment() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = torch.mm(x[:, :1], x[:1])  # of what is there anyway
        made = torch.mm(x, w)
        small = torch.mm(made, made[:1].t())  # takes less room than what it is made of
        wide = torch.mm(x, torch.cat([w, w], 1))
        return result, small, torch.mm(wide, wide[:1].t())

    plan = check_schedule(f, X, torch.rand(6, 20))
    order = [name for step in plan.steps for name in (step.loop if hasattr(step, "loop") else step.op).writes]
    result, small, _ = (order.index(out.buffer) for out in plan.program.outputs)
    wide = max(at for at, name in enumerate(order) if tuple(plan.program.buffers[name].size) == (6, 40))
    assert small < wide < result, str(plan)


def test_many_worst_moments_of_falling_height_do_not_take_the_square_of_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peaks = 40

    def f(x: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = []
        for w in weights:
            found.append(torch.mm(x[:, :1], x[:1]))
            wide = torch.mm(x, w)
            found.append(torch.mm(wide, wide[:1].t()))
        return tuple(found)

    # What is added at each peak by a result before it is a little less than what the next is lower.
    weights = [torch.zeros(64, 67 * peaks - 66 * at) for at in range(peaks)]
    program = lower(*trace(f, torch.zeros(64, 64), *weights))
    looks = []
    ordering = sys.modules["inductor.schedule.order"]
    monkeypatch.setattr(ordering, "alive", lambda *args: looks.append(1) or alive(*args))
    nodes = build(program).nodes
    first = alive(build(program), [[node] for node in nodes])
    late = ordering._late(build(program), nodes, first, {node.order for node in nodes})
    assert len(looks) < peaks / 2
    assert max(alive(build(program), [[node] for node in late])) < max(first)
