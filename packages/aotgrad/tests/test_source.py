"""Compiled graphs in the frame of what runs them: when their body is taken in, under which names, and that nothing changes."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import aotgrad
from symshapes import StraightLine


class Offering:
    """A compiled graph with a body: what the interpreter gives, under the names of its caller, after a first call."""

    def __init__(self, run, count, only_if=""):
        self.run, self.count, self.only_if, self.calls = run, count, only_if, 0

    def __call__(self, inputs):
        self.calls += 1
        return self.run(inputs)

    def straight_line(self):
        if not self.calls:
            return None
        names = ["args", "results", "ctx", "t0", "gradients", "compiled", "compiled_forward", "fold", "hooks", "apply"]
        inputs = tuple(names[: self.count])
        lines = (f"has_storage = [{', '.join(inputs)}]", "is_grad_enabled = program(has_storage)")
        return StraightLine(inputs, ("torch = 7",), lines, "(*is_grad_enabled,)", {"program": self.run}, self.only_if)


@pytest.fixture
def offering(interpreter):
    made = []

    def compiler(module, inputs):
        made.append(Offering(interpreter(module, inputs), len(inputs)))
        return made[-1]

    compiler.made = made
    return compiler


def pair():
    return torch.randn(3, 4), torch.randn(3, 4, requires_grad=True)


@pytest.mark.parametrize("grad", [False, True])
def test_a_body_is_taken_in_after_the_first_call(offering, grad):
    program = lambda a, b: (a * b, (a - b).sin())  # noqa: E731
    x, w = pair()
    w.requires_grad_(grad)
    run = aotgrad.compile(program, [x, w], inference_compiler=offering)
    before = run.__source__
    for _ in range(3):
        expected = program(x, w)
        results = run(x, w)
        torch.testing.assert_close(results, expected)
        if grad:
            gradients = [torch.autograd.grad(r[0].sum() + r[1].sum(), w)[0] for r in (results, expected)]
            torch.testing.assert_close(*gradients)
    assert [each.calls for each in offering.made] == [1] * len(offering.made)
    text = run.__source__ if not grad or len(run.functions) > 1 else run.functions[0].forward.__source__
    assert "fold" not in text.replace("fold_", "") and "args_" in text
    assert grad or before != text


def test_where_a_body_may_not_run_the_graph_is_called(offering):
    x, w = torch.randn(3, 4), torch.randn(3, 4)
    run = aotgrad.compile(lambda a, b: a * b, [x, w], inference_compiler=offering)
    run(x, w)
    (compiled,) = offering.made
    compiled.only_if = "torch == 8"
    again = aotgrad.compile(lambda a, b: a * b, [x, w], inference_compiler=lambda module, inputs: compiled)
    torch.testing.assert_close(again(x, w), x * w)
    assert compiled.calls == 2
    torch.testing.assert_close(run(x, w), x * w)
    assert compiled.calls == 2


def test_a_call_that_fails_is_first_again(offering):
    x, w = torch.randn(3, 4), torch.randn(3, 4)
    run = aotgrad.compile(lambda a, b: a * b, [x, w], inference_compiler=offering)
    (compiled,) = offering.made
    inner, compiled.run = compiled.run, lambda inputs: 1 // 0
    with pytest.raises(ZeroDivisionError):
        run(x, w)
    compiled.run = inner
    torch.testing.assert_close(run(x, w), x * w)


@pytest.mark.parametrize("called", [False, True])
def test_what_is_dropped_is_freed_at_once(offering, called):
    x, w = pair()
    gc.disable()
    try:
        run = aotgrad.compile(lambda a, b: (a * b).sin(), [x, w], inference_compiler=offering)
        if called:
            run(x, w).sum().backward()
        dying = [weakref.ref(each) for each in (run, run.functions[0].forward, *offering.made)]
        offering.made.clear()
        del run
        gc.collect()  # classes are cycles of their own
        assert not any(ref() is not None for ref in dying)
    finally:
        gc.enable()


def test_tangents_of_other_strides(interpreter):
    x, w = torch.randn(3, 1, 4), torch.randn(3, 1, 4, requires_grad=True)
    run = aotgrad.compile(lambda a, b: a * b, [x, w], inference_compiler=interpreter)
    base = torch.randn(4, 3, 2)
    given = [
        base[:, :, :1].permute(1, 2, 0),
        torch.ones(()).expand(3, 1, 4),
        torch.randn(3, 4).as_strided((3, 1, 4), (4, 9, 1)),
    ]
    for tangent in given:
        torch.testing.assert_close(*(torch.autograd.grad(f(x, w), w, tangent)[0] for f in (run, torch.mul)))


def test_tangents_of_other_strides_and_without_memory(interpreter):
    """The backward runs as it was traced, where a view of the tangent needs the strides that were traced."""
    program = lambda a, b: (a @ b).reshape(-1).sin()  # noqa: E731
    x, w = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)
    run = aotgrad.compile(lambda a, b: a @ b, [x, w], inference_compiler=interpreter)
    for tangents in (torch.ones(2, 1, 1).expand(2, 3, 5), torch.randn(2, 5, 3).transpose(1, 2)):
        given = [torch.autograd.grad(f(x, w), w, tangents, is_grads_batched=True)[0] for f in (run, torch.matmul)]
        torch.testing.assert_close(*given)
    run = aotgrad.compile(program, [x, w], inference_compiler=interpreter)
    tangents = torch.randn(15, 2).T
    given = [torch.autograd.grad(f(x, w), w, tangents, is_grads_batched=True)[0] for f in (run, program)]
    torch.testing.assert_close(*given)


def test_within_function_transforms_the_program_runs(interpreter):
    x, w = pair()
    program = lambda a, b: (a * b).sin()  # noqa: E731
    run = aotgrad.compile(program, [x, w], inference_compiler=interpreter)
    for transform in (lambda f: torch.vmap(f)(x, w), lambda f: torch.func.grad(lambda a: f(a, w).sum())(x)):
        torch.testing.assert_close(transform(run), transform(program))


def test_within_function_transforms_a_program_that_writes_runs(interpreter):
    x, w = pair()
    program = lambda a, b: a.add_(1) * b  # noqa: E731
    run = aotgrad.compile(program, [x, w], inference_compiler=interpreter)
    results = [(torch.vmap(f)(given := x.clone(), w), given) for f in (run, program)]
    torch.testing.assert_close(*results)


def test_a_group_of_results_saves_what_its_own_backward_reads(interpreter):
    values = [torch.randn(3, 3, requires_grad=True) for _ in range(4)]
    run = aotgrad.compile(lambda a, b, c, d: ((a @ b).relu(), (c @ d).sin()), values, inference_compiler=interpreter)
    for result in run(*values):
        assert len(result.grad_fn.saved_tensors) == 3


def test_grad_mode_stays_as_it_was(interpreter):
    x, w = pair()
    programs = [lambda a, b: (a * b.detach(),), lambda a, b: (a * b, (a + b).sin())]
    for program in programs:
        run = aotgrad.compile(program, [x, w], inference_compiler=interpreter)
        with torch.no_grad():
            run(x, w)
            assert not torch.is_grad_enabled()
        run(x, w)
        assert torch.is_grad_enabled()
