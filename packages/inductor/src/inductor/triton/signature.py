"""A kernel as Triton's compiler takes it: types of its parameters, constants, and what may be assumed of arguments."""

from __future__ import annotations

from typing import Any

from triton.compiler import ASTSource

from inductor.device import Kernel, KernelArg
from inductor.ir.body import checks_positions
from inductor.triton.blocks import MULTIPLE, Blocks
from inductor.triton.expressions import TRITON_DTYPES
from inductor.triton.joint import ALIGNED
from inductor.triton.kernel import CHECKS


def source_of(function: Any, kernel: Kernel, blocks: Blocks, assumes: bytes, narrow: bool) -> ASTSource:
    """A kernel for the compiler.

    Args:
        assumes: a bit per argument, the first in the first byte's lowest: a multiple of `MULTIPLE`.
        narrow: integers have 32 bits.
    """
    signature = {arg.name: _type_of(arg, narrow) for arg in kernel.args}
    if checks_positions(kernel.body.ops):
        signature[CHECKS] = "*i32"
    constants = {"XBLOCK": blocks.x, "RBLOCK": blocks.r}
    attributes = {
        (at,): [["tt.divisibility", MULTIPLE]] for at in range(len(kernel.args)) if assumes[at // 8] >> at % 8 & 1
    }
    return ASTSource(
        function, {**signature, **dict.fromkeys(constants, "constexpr")}, constexprs=constants, attrs=attributes
    )


def joint_source(function: Any, aligned: bool) -> ASTSource:
    """A joint kernel for the compiler: it takes a table."""
    signature = {"table": "*i64", ALIGNED: "constexpr"}
    return ASTSource(function, signature, constexprs={ALIGNED: aligned}, attrs={(0,): [["tt.divisibility", MULTIPLE]]})


def _type_of(arg: KernelArg, narrow: bool) -> str:
    name = TRITON_DTYPES[arg.dtype].removeprefix("tl.").replace("bfloat", "bf").replace("float", "fp")
    name = name.replace("uint", "u").replace("int", "i")
    if arg.role != "size":
        return f"*{name}"
    return "i32" if narrow and name == "i64" else name
