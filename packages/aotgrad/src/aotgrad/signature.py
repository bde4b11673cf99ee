"""What a traced program does to its inputs and what its outputs are: the `Signature`, all that the runtime has to know.

In: what `alias` found. Out: a value of plain parts, which can be stored.
"""

from __future__ import annotations

from typing import Any

from torch.utils import _pytree as pytree

from aotgrad.views import ViewStep
from symshapes import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """Input `input` gets result `result` of the graph; with its gradient if `grad`. The input's version tells of it if `counted`: not of a
    write through `.data` alone."""

    input: int
    result: int
    grad: bool
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Computed:
    """An output that is result `result` of the graph."""

    result: int


@dataclass(frozen=True, slots=True)
class InputItself:
    """An output that is input `input`, the same object."""

    input: int


@dataclass(frozen=True, slots=True)
class Alias:
    """An output that is a view: `steps` applied to what is not None: input `input`, result `result`, output `output`."""

    input: int | None
    result: int | None
    steps: tuple[ViewStep, ...]
    output: int | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """An output that is no tensor."""

    value: Any


@dataclass(frozen=True, slots=True)
class Repeated:
    """An output that is the same object as output `output`."""

    output: int


@dataclass(frozen=True, slots=True)
class ResultSize:
    """In the arguments of a view step, and in `Shape`: an integer that is result `result` of the graph."""

    result: int


@dataclass(frozen=True, slots=True)
class Shape:
    """An output that is a `torch.Size` of these lengths."""

    lengths: tuple[int | ResultSize, ...]


Output = Computed | InputItself | Alias | Constant | Repeated | Shape


@dataclass(frozen=True)
class Signature:
    """How results of the graph become the program's outputs and effects.

    `grad_inputs`: inputs that require grad. `differentiable`: for each result, whether it requires grad.
    `spec`: the structure of the program's return value, whose leaves are `outputs`.
    """

    input_count: int
    mutations: tuple[Mutation, ...]
    outputs: tuple[Output, ...]
    differentiable: tuple[bool, ...]
    grad_inputs: tuple[int, ...]
    spec: Any

    @property
    def plain(self) -> bool:
        """Whether the program returns a flat tuple of exactly the graph's results."""
        return (
            not self.mutations
            and len(self.outputs) == len(self.differentiable)
            and all(type(out) is Computed and out.result == i for i, out in enumerate(self.outputs))
            and self.returns_tuple
        )

    @property
    def returns_tuple(self) -> bool:
        """Whether the program returns a flat tuple."""
        return self.spec == pytree.tree_structure((0,) * len(self.outputs))
