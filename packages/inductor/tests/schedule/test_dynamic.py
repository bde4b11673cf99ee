"""Schedules over symbolic sizes."""

import pytest
import sympy
import torch
from inductor_dynamic import check_dynamic
from inductor_schedules import launches, run

from inductor import Buffer, ExternOp, LoopOp, Program, StridedView, ops, record, schedule
from inductor.codegen.wrapper import generate
from symshapes import IntFunction


def tensors(*sizes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(size) for size in sizes)


def test_softmax_is_one_kernel() -> None:
    plan = check_dynamic(lambda x: (x.softmax(-1),), tensors((4, 6)), tensors((3, 7)), tensors((9, 2)))
    assert launches(plan) == 1


def test_reductions_broadcasts_and_layouts() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = (x + y).exp()
        return z, z.sum(0), z.t().contiguous(), (z - z.mean(-1, keepdim=True)).relu()

    check_dynamic(f, tensors((4, 6), (6,)), tensors((3, 5), (5,)), tensors((8, 9), (9,)))


def test_views_between_kernels() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.cumsum(0)  # in memory
        return y.reshape(-1) * 2, y.view(x.shape[0] * x.shape[1], 4).sum(-1), y[1:] + 1

    check_dynamic(f, tensors((3, 5, 4)), tensors((6, 2, 4)))


def test_memory_is_reused_between_symbolic_sizes() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for _ in range(4):
            x = x.cumsum(0).tanh()
        return (x,)

    plan = check_dynamic(f, tensors((3, 5)), tensors((6, 2)))
    assert plan.memory.reused


def test_sizes_as_arguments_of_calls_and_as_outputs() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.cumsum(0)
        return (torch.roll(y, x.shape[0] // 2, 0), torch.full((x.shape[1],), 2.0) + x.shape[0])

    check_dynamic(f, tensors((4, 5)), tensors((7, 2)))


def test_a_slice_that_begins_before_the_front_begins_there() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x[-30::4] + 1, x[-7::2] * 2, torch.roll(x.cumsum(0)[-30::4], 1, 0)

    check_dynamic(f, tensors((20,)), tensors((21,)), tensors((9,)))


def test_a_size_from_nowhere_is_refused() -> None:
    program = Program(inputs=["x"], outputs=[sympy.Symbol("s7", integer=True)])
    one = (sympy.Integer(1),)
    program.buffers["x"] = Buffer("x", torch.device("cpu"), torch.float32, one, one)
    with pytest.raises(NotImplementedError, match="s7"):
        generate(schedule(program))


def test_a_size_read_from_data() -> None:
    # u0 = x.item(); a loop over u0 elements has to wait for it.
    u0 = sympy.Symbol("u0", integer=True, nonnegative=True)
    i = sympy.Symbol("i0", integer=True, nonnegative=True)
    zero, one = sympy.Integer(0), sympy.Integer(1)
    program = Program(inputs=["x"])
    program.buffers["x"] = Buffer("x", torch.device("cpu"), torch.int64, (), ())
    program.buffers["y"] = Buffer("y", torch.device("cpu"), torch.int64, (u0,), (one,))
    item = torch.ops.aten._local_scalar_dense.default
    program.operations.append(ExternOp((), item, (StridedView("x", (), (), zero),), {}, (), ("u0",)))

    def body(outer: object, inner: object) -> None:
        ops.store("y", i, ops.index_expr(i * 2, torch.int64))

    loop = record(body, [i], [], lambda _: torch.int64)
    program.operations.append(LoopOp(("y",), torch.device("cpu"), (u0,), (), loop, ()))
    program.outputs = [StridedView("y", (u0,), (one,), zero), u0]
    result = run(schedule(program), torch.tensor(5))
    assert result[0].tolist() == [0, 2, 4, 6, 8] and result[1] == 5


def test_sizes_that_floats_become_are_arguments() -> None:
    """No backend has text for them: Python computes them."""

    def resampled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size = [torch.sym_int(length * 0.3) for length in x.shape[2:]]
        y = torch.ops.aten.upsample_bilinear2d(x, size, False)
        return y, torch.ops.aten.upsample_nearest2d(x.sin(), [size[0], 7]).sum(-1), x[:, :, : size[0]] + 1

    plan = check_dynamic(resampled, *((torch.randn(2, 3, *lengths),) for lengths in ((7, 9), (40, 90), (14, 18))))
    for kernel in plan.kernels:
        expressions = [*kernel.outer_sizes, *kernel.inner_sizes]
        for op in kernel.body.ops:
            op.with_index(lambda index: expressions.append(index) or index)
        assert not any(expression.atoms(IntFunction) for expression in expressions)
