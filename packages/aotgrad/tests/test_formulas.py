"""Operators whose own formula for gradients looks at data: one call of the backward, which applies the formula to values."""

from __future__ import annotations

import pytest
import torch
from torch import fx

import aotgrad


@torch.library.custom_op("formulas::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: torch.Tensor, others: list[torch.Tensor], power: int) -> torch.Tensor:
    return (x * factor.item() ** power + sum(others)).contiguous()


@scaled.register_fake
def _(x, factor, others, power):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[1])
    ctx.power, ctx.count = inputs[3], len(inputs[2])


def gradients(ctx, gradient):
    (factor,) = ctx.saved_tensors
    if factor.item() == 0:
        return None, None, [gradient] * ctx.count, None
    return gradient * factor.item() ** ctx.power, None, [gradient] * ctx.count, None


scaled.register_autograd(gradients, setup_context=keep)


@torch.library.custom_op("formulas::rooted", mutates_args=())
def rooted(x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sqrt() * (at.item() + 1), x.argsort()


@rooted.register_fake
def _(x, at):
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)


def keep_results(ctx, inputs, output):
    ctx.save_for_backward(output[0], inputs[1])


def of_results(ctx, gradient, _):
    root, at = ctx.saved_tensors
    return gradient * (at.item() + 1) ** 2 / (2 * root), None


rooted.register_autograd(of_results, setup_context=keep_results)


@torch.library.custom_op("formulas::raised", mutates_args=())
def raised(x: torch.Tensor, power: torch.Tensor) -> torch.Tensor:
    return x ** power.item()


@raised.register_fake
def _(x, power):
    return torch.empty_like(x)


def keep_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)
    ctx.shape = output.shape


def of_inputs(ctx, gradient):
    x, power = ctx.saved_tensors
    return (gradient * power.item() * x ** (power.item() - 1)).reshape(ctx.shape), None


raised.register_autograd(of_inputs, setup_context=keep_inputs)


def compiled(interpreter, program, *inputs):
    return aotgrad.compile(fx.symbolic_trace(program), list(inputs), inference_compiler=interpreter)


def leaf(*size):
    return torch.rand(*size).add(0.5).requires_grad_()


def asked(program, inputs):
    out = program(*inputs)
    (result, *_) = out
    wanted = [t for t in inputs if t.requires_grad]
    return out, torch.autograd.grad(result, wanted, torch.arange(float(result.numel())).view_as(result))


def test_a_list_of_tensors_numbers_and_gradients_that_are_one_tensor(interpreter):
    def program(x, factor, y, z):
        return (torch.ops.formulas.scaled(x.sin(), factor, [y.t(), z], 2).cos(),)

    inputs = leaf(2, 3), torch.tensor(3.0), leaf(3, 2), leaf(2, 3)
    run = compiled(interpreter, program, *inputs)
    torch.testing.assert_close(asked(run, inputs), asked(program, inputs))
    # The formula is asked at every run.
    inputs = leaf(2, 3), torch.tensor(2.0), leaf(3, 2), leaf(2, 3)
    torch.testing.assert_close(asked(run, inputs), asked(program, inputs))


def test_a_formula_that_keeps_a_result_and_results_without_gradients(interpreter):
    def program(x, at):
        root, order = torch.ops.formulas.rooted(x * 2, at)
        return root + 1, order

    inputs = leaf(4), torch.tensor(1)
    run = compiled(interpreter, program, *inputs)
    torch.testing.assert_close(asked(run, inputs), asked(program, inputs))
    assert not run(*inputs)[1].requires_grad


def test_a_formula_that_keeps_inputs_and_a_shape(interpreter):
    def program(x, power):
        return (torch.ops.formulas.raised(x.sin(), power).exp(),)

    inputs = leaf(2, 3), torch.tensor(3.0)
    run = compiled(interpreter, program, *inputs)
    torch.testing.assert_close(asked(run, inputs), asked(program, inputs))


def test_only_what_the_formula_keeps_of_results_is_given_to_it():
    def given(program, *inputs):
        graph = aotgrad.trace_joint(fx.symbolic_trace(program), inputs).graph
        (call,) = [n for n in graph.nodes if "gradients_of" in n.name]
        return len(call.args[0])

    assert given(lambda x, at: torch.ops.formulas.rooted(x, at)[0], leaf(4), torch.tensor(1)) == 2
    assert given(lambda x, power: torch.ops.formulas.raised(x, power), leaf(4), torch.tensor(2.0)) == 0


def test_a_gradient_that_is_none_is_no_zero(interpreter):
    def program(x, factor, y):
        return (torch.ops.formulas.scaled(x, factor, [y], 1),)

    inputs = leaf(3), torch.tensor(0.0), leaf(3)
    with pytest.raises(RuntimeError, match=r"formulas\.scaled.* gave no gradient"):
        compiled(interpreter, program, *inputs)(*inputs)[0].sum().backward()


def test_second_derivatives_are_those_of_the_program(interpreter):
    def program(x, factor):
        return (torch.ops.formulas.scaled(x.pow(3), factor, [], 2),)

    def second(run):
        x = torch.arange(3.0).requires_grad_()
        (out,) = run(x, torch.tensor(2.0))
        (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        return torch.autograd.grad(gradient.sum(), x)

    run = compiled(interpreter, program, leaf(3), torch.tensor(2.0))
    torch.testing.assert_close(second(run), second(program))


def test_an_operator_that_is_defined_anew_has_its_new_formula(interpreter):
    def defined(times):
        @torch.library.custom_op("formulas::again", mutates_args=())
        def again(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            return x * times * at.item()

        again.register_fake(lambda x, at: torch.empty_like(x))
        again.register_autograd(
            lambda ctx, g: (g * times * ctx.saved_tensors[0].item(), None),
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]),
        )

    for times in (2, 3):
        defined(times)
        inputs = leaf(3), torch.tensor(5.0)
        (out,) = compiled(interpreter, lambda x, at: (torch.ops.formulas.again(x, at),), *inputs)(*inputs)
        torch.testing.assert_close(torch.autograd.grad(out.sum(), inputs[0]), (torch.full((3,), 5.0 * times),))
