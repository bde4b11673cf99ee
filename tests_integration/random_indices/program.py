"""`Program`: lines of Python over tensors, and what they are given. `smaller`: the same with less in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Input:
    """A tensor that a program is given: sizes, dtype, and the order of its dimensions in memory, with a margin around them."""

    size: tuple[int, ...]
    dtype: str
    order: tuple[int, ...]
    margin: int
    seed: int

    def make(self, device: str) -> Tensor:
        dtype = eval(self.dtype)
        whole = [self.size[dim] + self.margin for dim in self.order]
        generator = torch.Generator().manual_seed(self.seed)
        if dtype is torch.bool:
            made = torch.randint(0, 2, whole, generator=generator) > 0
        elif dtype.is_floating_point:
            made = torch.randint(-40, 41, whole, generator=generator).to(dtype) / 8
        else:
            low = 0 if dtype is torch.uint8 else -100
            made = torch.randint(low, 101, whole, generator=generator).to(dtype)
        back = [self.order.index(dim) for dim in range(len(self.size))]
        made = made.to(device).permute(back)
        return made[tuple(slice(0, n) for n in self.size)] if self.margin else made


@dataclass(frozen=True)
class Program:
    """Its lines give values to `v0`, `v1`..., of `x0`, `x1`...; `returns` are those that it gives back."""

    inputs: tuple[Input, ...]
    lines: tuple[str, ...]
    returns: tuple[str, ...]
    backward: bool
    others: tuple[Input, ...] = ()
    """Of other sizes, which eager runs the program with as well."""
    numbers: tuple[int, int] = (1, 1)
    """What `k` is, with these inputs and with the other ones."""

    def text(self, name: str = "program") -> str:
        head = f"def {name}({', '.join(f'x{at}' for at in range(len(self.inputs)))}, k):\n"
        return head + "".join(f"    {line}\n" for line in self.lines) + f"    return [{', '.join(self.returns)}]\n"

    def __str__(self) -> str:
        return f"{self.text()}# {self.inputs}\n# then {self.others}\n# k: {self.numbers}\n# backward: {self.backward}"


def names(device: str) -> dict[str, Any]:
    """What the text of a program refers to."""

    def arange(n: int, *dtype: torch.dtype) -> Tensor:
        return torch.arange(n, device=device, dtype=dtype[0] if dtype else torch.int64)

    return {"torch": torch, "F": F, "arange": arange}


def reads(text: str, name: str) -> bool:
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not text[end : end + 1].isdigit() and not (at and (text[at - 1].isalnum() or text[at - 1] == "_")):
            return True
        at = text.find(name, end)
    return False


def smaller(program: Program) -> Iterator[Program]:
    """Programs with less in them; some are of no use."""
    if len(program.returns) > 1:
        for at in range(len(program.returns)):
            yield replace(program, returns=program.returns[:at] + program.returns[at + 1 :])
    for at in reversed(range(len(program.lines))):
        yield replace(program, lines=program.lines[:at] + program.lines[at + 1 :])
    for at, line in enumerate(program.lines):
        name = line.partition(" = ")[0]
        if name not in program.returns and name.startswith("v") and at < len(program.lines) - 1 and " " not in name:
            yield replace(program, lines=program.lines[: at + 1], returns=(name,))
    # A line that hands on what it was given.
    for at, line in enumerate(program.lines):
        name, _, text = line.partition(" = ")
        for other in {f"x{n}" for n in range(len(program.inputs))} | {f"v{n}" for n in range(at)}:
            if name.startswith("v") and " " not in name and text != other and reads(text, other):
                yield replace(program, lines=(*program.lines[:at], f"{name} = {other}", *program.lines[at + 1 :]))
    if program.others:
        yield replace(program, others=())
        yield replace(program, inputs=program.others, others=(), numbers=(program.numbers[1], 1))
        yield replace(program, others=program.inputs)
    if program.backward:
        yield replace(program, backward=False)
