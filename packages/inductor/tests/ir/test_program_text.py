"""Programs print as text that tells all of them, and are read back as they were: every program that a test lowers
(`inductor_tracing.read_back`), and here what few have, and what is refused."""

from __future__ import annotations

import math

import pytest
import sympy
import torch
from inductor_tracing import read_back

from inductor import Buffer, ExternOp, LoopOp, Measure, Program, StridedView, ops, parse_program, record
from inductor.handlers.interpreter import run_program
from symshapes import index_symbol, size_symbol

I0, S0, U0 = index_symbol("i0"), size_symbol("s0"), index_symbol("u0")
CPU, F32 = torch.device("cpu"), torch.float32
ONE = sympy.Integer(1)


def doubled() -> Program:
    """`x[:, 1:] * 2` plus a constant, as far as a number read from `x` says: of everything that a program can have."""

    def body(outer: list[sympy.Symbol], _: list[sympy.Symbol]) -> None:
        value = ops.mul(ops.load("x y", outer[0]), ops.constant(2.0, F32))
        ops.store("buf0", outer[0], ops.add(value, ops.load("c", outer[0])))

    program = Program()
    sizes = (S0, ONE * 3)
    for name, size in (("x y", sizes), ("c", sizes), ("start", sizes), ("buf0", sizes), ("buf1", (U0, ONE * 3))):
        program.buffers[name] = Buffer(name, CPU, F32, size, (ONE * 3, ONE))
    program.inputs += ["x y", S0, "start"]
    program.constants["c"] = torch.ones(2, 3)
    program.symbols |= {S0: Measure("x y", 0), size_symbol("s1"): None, size_symbol("s2"): Measure("x y", 0, "stride")}
    loop = record(body, [I0], [], lambda _: F32)
    whole = StridedView("buf0", sizes, (ONE * 3, ONE), sympy.Integer(0))
    corner = StridedView("buf0", (), (), 3 * S0 - 3)
    program.operations += [
        LoopOp(("buf0",), CPU, (3 * S0,), (), loop, (), (("buf0", "start"),)),
        ExternOp((None,), torch.ops.aten._local_scalar_dense.default, (corner,), {}, (), ("u0",)),
        ExternOp(
            ("buf1",),
            torch.ops.aten.full.default,
            ([U0, 3], -math.inf),
            {"dtype": F32, "layout": torch.strided, "device": CPU, "pin_memory": False},
            (),
        ),
    ]
    program.outputs += [whole, StridedView("buf1", (U0, ONE * 3), (ONE * 3, ONE), 0 * ONE), S0 + 1, U0, None, 2.5, True]
    return program


def test_all_that_a_program_can_have() -> None:
    program = read_back(doubled())
    assert (
        str(program)
        == """
program("x y", s0, "start")
s0: integer & positive = size("x y", 0)
s1: integer & positive = given
s2: integer & positive = stride("x y", 0)
buffer("x y", float32, "cpu", (s0, 3), (3, 1))
buffer("c", float32, "cpu", (s0, 3), (3, 1))
buffer("start", float32, "cpu", (s0, 3), (3, 1))
buffer("buf0", float32, "cpu", (s0, 3), (3, 1))
buffer("buf1", float32, "cpu", (u0, 3), (3, 1))
constant("c")
@loop("buf0", device="cpu", outer=(3*s0,), inner=(), initial={"buf0": "start"})
def body(i0):
    tmp0: float32 = load("x y", i0)
    tmp1: float32 = constant(2.0)
    tmp2: float32 = mul(tmp0, tmp1)
    tmp3: float32 = load("c", i0)
    tmp4: float32 = add(tmp2, tmp3)
    store("buf0", i0, tmp4)
extern([None, u0], aten._local_scalar_dense.default, view("buf0", (), (), 3*s0 - 3))
extern(["buf1"], aten.full.default, [u0, 3], -inf, dtype=torch.float32, layout=torch.strided, device=device("cpu"), pin_memory=False)
output(view("buf0", (s0, 3), (3, 1), 0), view("buf1", (u0, 3), (3, 1), 0), s0 + 1, u0, None, 2.5, True)
""".strip()
    )


def test_what_was_read_runs() -> None:
    """Of the loop alone: no number is read from data."""
    program = doubled()
    del program.operations[1:], program.outputs[1:]
    x = torch.arange(6.0).reshape(2, 3)
    (found,) = run_program(read_back(program), [x, 2, torch.zeros(2, 3)])
    assert torch.equal(found, x * 2 + 1)


def test_what_no_text_stands_for_is_not_read() -> None:
    program = Program(operations=[ExternOp((), torch.ops.aten.sin.default, (torch.Generator(),), {}, ())])
    assert "extern([], aten.sin.default, <Generator>)" in str(program)
    with pytest.raises(ValueError, match="no text of a program"):
        parse_program(str(program))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("import os", "no part of a program"),
        ('buffer("x", float31, "cpu", (2,), (1,))', "no dtype: float31"),
        ('buffer("x", float32, "tpu7", (2,), (1,))', "tpu7"),
        ('buffer("x", float32, "cpu", 2, (1,))', "no sizes: 2"),
        ('constant("c")', "no constant: c"),
        ('extern(["buf0"], os.system, "true")', "no operator: os.system"),
        ('extern(["buf0"], aten.mm, 2)', "no operator: aten.mm"),
        ('extern(["buf0"], aten.sin.default, torch.load)', "no literal: torch.load"),
        ('output(open("x"))', "is no"),
        ('@loop("buf0", outer=(2,), inner=())\ndef body(i0):\n    store("buf0", i0, i0)', "a loop has a device"),
        ('@loop("buf0", device="cpu", outer=(2,), inner=())\ndef body(i0):\n    store("buf0", i0, i0)', "no value: i0"),
    ],
)
def test_what_is_no_program_is_refused_with_its_line(line: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"line \d+, .*: .*") as caught:
        parse_program(f"program()\n{line}")
    assert words in str(caught.value)
