"""One row in one form under one contender: run, compared with eager, its compiles counted.

In: a row, a form, a contender's name. Out: a `Cell`. Nothing is shared with other cells but what the compiler keeps in the process.
"""

from __future__ import annotations

import math
import random
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.dynamic.contender import CONTENDERS, Contender, Form
from benchmarks.dynamic.registry import Row


@dataclass
class Cell:
    """`status`: right; over (right, but compiled too often); wrong; raised; left (nothing was compiled); died; timed out."""

    row: str
    family: str
    form: str
    contender: str
    status: str
    why: str = ""
    compiles: int = 0
    allowed: int = 0
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.status == "right"


def judged(row: Row, form: Form, contender: str) -> Cell:
    """Run the row under eager and under the contender, in this process."""
    allowed = row.dynamic if form.dynamic else row.automatic
    cell = Cell(row.name, row.family, form.name, contender, "right", allowed=allowed)
    expected = ran(row, Contender())
    compiler = CONTENDERS[contender](form, row.whole)
    try:
        found = ran(row, compiler)
    except Exception as error:
        cell.status, cell.why = "raised", f"{type(error).__name__}: {first_line(error)}{_where(error)}"
        cell.compiles = compiler.graphs
        return cell
    cell.compiles = compiler.graphs
    gap = difference(expected, found, row.tolerance if form.compiled or not row.exact else None)
    if gap is not None:
        cell.status, cell.why = "wrong", gap
    elif not cell.compiles and allowed:
        cell.status, cell.why = "left", "nothing was compiled"
    elif cell.compiles > allowed:
        cell.status, cell.why = "over", f"{cell.compiles} compiles, {allowed} allowed"
    return cell


def ran(row: Row, contender: Contender) -> Any:
    """What the row gives, as a picture of plain values that later changes do not reach."""
    torch.manual_seed(0)
    random.seed(0)
    return picture(row.run(contender))


def first_line(error: BaseException) -> str:
    """The first line of a message that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")[:300]


def _where(error: BaseException) -> str:
    """The innermost place within a compiler's own files."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [f for f in frames if "/packages/" in f.filename or "/torch/" in f.filename]
    return f"  [{inner[-1].filename.rpartition('/src/')[2]}:{inner[-1].lineno}]" if inner else ""


@dataclass
class Picture:
    """A tensor as it was."""

    kind: str
    stride: tuple[int, ...]
    needs_gradient: bool
    values: torch.Tensor


def picture(value: Any) -> Any:
    """Tensors copied, containers copied with their types."""
    if isinstance(value, torch.Tensor):
        stride = tuple(value.stride()) if value.layout is torch.strided else ()
        copied = value.detach().to_dense() if value.layout is not torch.strided else value.detach()
        return Picture(type(value).__name__, stride, value.requires_grad, copied.clone())
    if isinstance(value, Mapping):
        return (type(value).__name__, {k: picture(v) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return (type(value).__name__, [picture(v) for v in value])
    return value


def difference(left: Any, right: Any, tolerance: float | None, where: str = "") -> str | None:
    """Where two pictures differ first; None where they do not. Without a tolerance every bit counts, and strides do."""
    if type(left) is not type(right):
        return f"{where}: {type(right).__name__} for {type(left).__name__}"
    if isinstance(left, Picture):
        return _tensors(left, right, tolerance, where)
    if isinstance(left, dict):
        if list(left) != list(right):
            return f"{where}: keys {list(right)} for {list(left)}"
        return _first(difference(left[k], right[k], tolerance, f"{where}[{k!r}]") for k in left)
    if isinstance(left, list | tuple):
        if len(left) != len(right):
            return f"{where}: {len(right)} values for {len(left)}"
        pairs = enumerate(zip(left, right, strict=True))
        return _first(difference(a, b, tolerance, f"{where}.{i}") for i, (a, b) in pairs)
    if isinstance(left, float) and (math.isnan(left) and math.isnan(right)):
        return None
    if isinstance(left, float) and tolerance is not None and math.isclose(left, right, rel_tol=tolerance):
        return None
    return None if left == right else f"{where}: {right!r} for {left!r}"


def _first(found: Any) -> str | None:
    return next((text for text in found if text is not None), None)


def _tensors(left: Picture, right: Picture, tolerance: float | None, where: str) -> str | None:
    a, b = left.values, right.values
    if (left.kind, a.dtype, a.shape) != (right.kind, b.dtype, b.shape):
        return f"{where}: {right.kind} {b.dtype} {tuple(b.shape)} for {left.kind} {a.dtype} {tuple(a.shape)}"
    if left.needs_gradient != right.needs_gradient:
        return f"{where}: requires_grad {right.needs_gradient} for {left.needs_gradient}"
    if tolerance is None:
        if left.stride != right.stride:
            return f"{where}: strides {right.stride} for {left.stride}"
        rtol = atol = 0.0
    else:
        rtol = atol = tolerance
    if not a.is_floating_point() and not a.is_complex():
        return None if torch.equal(a, b) else f"{where}: {int((a != b).sum())} of {a.numel()} differ"
    if torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
        return None
    return f"{where}: off by {(a - b).abs().max().item():.3g}"
