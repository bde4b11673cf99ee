"""Writes to inputs that a compiler takes over: what it is offered, and what the runtime leaves out for it. That results and gradients are
eager's is looked at by all tests that compare with eager: `check` does each with such a compiler, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import aotgrad
from aotgrad.alias import Mutation
from aotgrad.writes import offer_writes


def offered(program: Any, *inputs: Any) -> list[dict[int, int]]:
    """For each graph, forward or backward, the writes that its output node offers."""
    found = []

    def compiler(module: Any, _: Any) -> Any:
        found.append(module.graph.output_node().meta.get("writes", {}))
        return lambda args: module(*args)

    aotgrad.compile(program, list(inputs), inference_compiler=compiler)
    return found


def test_results_by_the_inputs_that_they_are_written_to():
    def program(a, b, c):
        b.add_(a)
        c.mul_(2)
        return (a + 1,)

    x = torch.ones(3)
    assert offered(program, x, x.clone(), x.clone()) == [{0: 1, 1: 2}]


def test_a_write_with_a_gradient_is_autograds():
    def program(x, w):
        x.mul_(w)
        return (x.sum(),)

    assert not any(offered(program, torch.ones(3), torch.ones(3, requires_grad=True)))


def test_what_a_backward_needs_of_the_old_content(check, writing):
    def program(x, w):
        out = x.clone() * w, x.sin() * w
        x.add_(1)
        return out

    x, w = torch.randn(3), torch.randn(3, requires_grad=True)
    assert offered(program, x, w)[0]
    check(program, x, w)


def test_what_a_backward_needs_of_the_new_content(check, writing):
    def program(seen, w):
        seen.add_(1)
        return (seen * w,)

    seen, w = torch.randn(3), torch.randn(3, requires_grad=True)
    assert not any(offered(program, seen, w))
    check(program, seen, w)


def test_an_input_that_is_kept_for_a_backward_is_not_offered():
    traced = aotgrad.trace_joint(
        lambda x, w: ((x * w).sum(), x.detach().add(1)), [torch.ones(3), torch.ones(3).requires_grad_()]
    )
    assert isinstance(traced, aotgrad.JointGraph)
    partition = aotgrad.partition_default(traced)
    signature = replace(traced.signature, mutations=(Mutation(0, 1, False), Mutation(1, 1, False)))
    assert {saved.input for saved in partition.saved} == {0}
    assert offer_writes(partition.forward, signature, saved=[partition.saved]) == {1: 1}


def test_statistics_of_a_training_step(writing):
    def program(x, w, seen):
        out = x * w
        seen.lerp_(out.detach().mean(0), 0.1)
        return (out,)

    x, seen = torch.randn(4, 3), torch.zeros(3)
    w = torch.ones(3, requires_grad=True)
    assert offered(program, x, w, seen) == [{0: 2}, {}]
    compiled = aotgrad.compile(program, [x, w, seen], inference_compiler=writing)
    before = seen._version
    (out,) = compiled(x, w, seen)
    torch.testing.assert_close(seen, 0.1 * x.mean(0))
    assert seen._version == before + 1
    out.sum().backward()
    torch.testing.assert_close(w.grad, x.sum(0))


def test_versions_tell_of_the_write(writing):
    x = torch.ones(3, requires_grad=True)
    held = torch.ones(3)
    kept = x * held  # saves `held`
    compiled = aotgrad.compile(lambda t: (t.add_(1),), [held], inference_compiler=writing)
    assert compiled(held)[0] is held
    assert held._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()


@pytest.mark.parametrize(
    "write",
    [lambda t: t.add_(1), lambda t: torch._foreach_add_([t], 1), lambda t: torch._foreach_mul_([t[:1]], 3)],
    ids=["tensor", "list", "part"],
)
def test_writes_to_what_the_program_saved_are_refused(writing, write):
    def program(x):
        saved = x * 2
        result = saved.sin()
        write(saved)
        return (result,)

    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        aotgrad.compile(program, [x], inference_compiler=writing)(x)[0].sum().backward()


def test_a_wrapper_that_hides_who_writes_does_no_harm(writing):
    def hiding(module, inputs):
        compiled = writing(module, inputs)
        return lambda args: compiled(args)

    def program(x, w, seen):
        out = x * w
        seen.add_(out.detach().sum(0))
        return (out, seen[1:])

    for wants in (False, True):
        x, w, seen = torch.ones(2, 3), torch.ones(3, requires_grad=wants), torch.zeros(3)
        compiled = aotgrad.compile(program, [x, w, seen], inference_compiler=hiding)
        out, part = compiled(x, w, seen)
        assert torch.equal(seen, torch.full((3,), 2.0)) and torch.equal(part, seen[1:])
        assert seen._version == 1
        assert part.data_ptr() == seen[1:].data_ptr() and out.requires_grad == wants


def test_what_nobody_offered_is_not_believed(interpreter):
    class Boasting:
        written_results = (0, 1)

        def __init__(self, module: Any, inputs: Any) -> None:
            self.run = interpreter(module, inputs)

        def __call__(self, args: list[Any]) -> Any:
            return self.run(args)

    x, w = torch.ones(3), torch.ones(3, requires_grad=True)

    def program(x, w):
        x.mul_(w)  # with a gradient
        return (x + 1,)

    (out,) = aotgrad.compile(program, [x, w], inference_compiler=Boasting)(x, w)
    assert torch.equal(out, x + 1) and x.requires_grad


def test_eager_refuses_the_write(writing):
    with torch.inference_mode():
        x, expected = torch.ones(3), torch.ones(3)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        expected.add_(1)
    compiled = aotgrad.compile(lambda t: (t.add_(1),), [torch.ones(3)], inference_compiler=writing)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        compiled(x)
    assert torch.equal(x, expected)
    with torch.inference_mode():
        compiled(x)
        assert torch.equal(x, expected + 1)


def test_inputs_that_share_memory(writing):
    def program(a, b):
        a.add_(b)
        return (b * 2,)

    compiled = aotgrad.compile(program, [torch.ones(2), torch.ones(2)], inference_compiler=writing)
    base, other = torch.arange(4.0), torch.arange(4.0)
    (out,) = compiled(base[:2], base[2:])
    (expected,) = program(other[:2], other[2:])
    assert torch.equal(base, other) and torch.equal(out, expected)


@pytest.mark.parametrize("source", [lambda x: x, lambda x: x.detach(), lambda x: x.view(-1).view(3)])
def test_a_write_of_what_is_there_already_is_one(writing, source):
    held = torch.ones(3)
    kept = torch.ones(3, requires_grad=True) * held
    compiled = aotgrad.compile(lambda t: (t.copy_(source(t)) + 1,), [held], inference_compiler=writing)
    assert torch.equal(compiled(held)[0], torch.full((3,), 2.0))
    assert torch.equal(held, torch.ones(3)) and held._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()


class Looks:
    """A compiled graph that looks for shared memory itself."""

    tells_shared = True

    def __init__(self, module: Any) -> None:
        self.module = module
        self.apart = module.graph.output_node().meta.get("apart")
        self.calls = 0

    def __call__(self, args: list[Any]) -> Any:
        self.calls += 1
        storages = [value.untyped_storage().data_ptr() for value in args]
        if any(storages.count(storages[at]) > 1 for at in self.apart or ()):
            return None
        return self.module(*args)


@pytest.mark.parametrize("asks", [True, False])
def test_who_looks_for_shared_memory(asks):
    def program(a, b):
        b.add_(a)
        return (b * 2,)

    made = []

    def compiler(module: Any, _: Any) -> Any:
        made.append(Looks(module))
        return made[-1] if asks else lambda args: module(*args)

    x = torch.ones(4)
    run = aotgrad.compile(program, [x, x.clone()], inference_compiler=compiler)
    assert made[0].apart == (1,)
    assert run.separates
    assert ("storages" in run.__source__) != asks
    for given in (lambda: [torch.ones(4), torch.ones(4)], lambda: [t := torch.ones(4), t], lambda: _halves(4)):
        found, expected = given(), given()
        torch.testing.assert_close(run(*found), program(*expected))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)
    assert made[0].calls == (3 if asks else 0)


def test_inputs_side_by_side_in_one_storage_are_separate():
    def program(a, b):
        b.mul_(3)
        return (a + b,)

    calls = []

    def compiler(module: Any, _: Any) -> Any:
        return lambda args: calls.append(1) or module(*args)

    run = aotgrad.compile(program, _halves(4), inference_compiler=compiler)
    whole = torch.arange(8.0)
    for number, given in enumerate((_halves(4), [torch.ones(4), torch.ones(4)], _halves(4)[::-1], whole.split(4)), 1):
        expected = [t.clone() for t in given]
        torch.testing.assert_close(run(*given), program(*expected))
        torch.testing.assert_close([*given], expected)
        assert len(calls) == number
    found, expected = (torch.arange(8.0) for _ in range(2))
    torch.testing.assert_close(run(found[:4], found[3:7]), program(expected[:4], expected[3:7]))
    torch.testing.assert_close(found, expected)
    assert len(calls) == 4


def _halves(count: int) -> list[torch.Tensor]:
    both = torch.arange(2.0 * count)
    return [both[:count], both[count:]]


def test_empty_tensors_share_nothing():
    def program(a, b):
        b.add_(a)
        return (b * 2,)

    x = torch.empty(0)
    run = aotgrad.compile(program, [x, x.clone()], inference_compiler=lambda module, _: lambda args: module(*args))
    run.__globals__["program"] = None  # what would run otherwise
    assert run(torch.empty(0), torch.empty(0))[0].numel() == 0


def _through_data(weight, other, x):
    weight.data.add_(x)
    other.data[1:].mul_(2)
    other.data.view(-1).sub_(x)
    return (x * 2,)


def _through_data_and_otherwise(weight, other, x):
    weight.data.add_(x)
    weight.detach().mul_(2)
    other.data[1:].mul_(2)
    torch._foreach_add_([other], [x])
    return (x * 2,)


def _by_views_and_lists(weight, other, x):
    weight.detach()[1:].add_(1)
    torch._foreach_mul_([other], 2.0)
    return (x * 2,)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("by", ["nobody", "compiler"])
@pytest.mark.parametrize("program", [_through_data, _through_data_and_otherwise, _by_views_and_lists])
def test_versions_tell_of_no_write_through_data(writing, program, by, training):
    def inputs():
        return torch.ones(3, requires_grad=True), torch.ones(3), torch.ones(3, requires_grad=training)

    def copying(module, _):
        return lambda args: module(*args)

    graph = torch.fx.symbolic_trace(program)
    compiled = aotgrad.compile(graph, list(inputs()), inference_compiler=writing if by == "compiler" else copying)
    mine, plain = inputs(), inputs()
    for fn, (weight, other, x) in ((compiled, mine), (program, plain)):
        kept = (weight * weight * other).sum()  # saves both
        fn(weight, other, x)
        told = [bool(each._version) for each in (weight, other)]
        assert told == [program is not _through_data] * 2
        if program is _through_data:
            kept.backward()
        else:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                kept.backward()
    for ours, theirs in zip(mine, plain, strict=True):
        torch.testing.assert_close(ours, theirs)
    if program is _through_data:
        torch.testing.assert_close(mine[0].grad, plain[0].grad)
