"""Parts of the interpreter that make the graph: calls of torch, control flow, the program's own backwards, levels and modes that calls are in.

``Any`` stands for values of families that are defined above.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol, TypeVar

import torch
from torch import fx

from capture.sources import Source

from .autograd_history import AutogradHistory
from .read_again import ReadAgain

V = TypeVar("V")
"""What stands for a value of the program: ``base.Variable``, of which nothing here knows more."""


class Recorder(Protocol[V]):
    """The graph, and torch's state as the calls in it leave it."""

    #: Torch's settings where the frame begins, and how deep autocast is nested.
    entered_with: dict[str, Any]
    autocast_nesting: int
    #: The variables of tensors, by the identity of their fakes.
    fakes: dict[int, Any]
    #: The graph being built, and what its fakes run in.
    graph: Any
    fake_mode: Any
    #: Blocks of inference mode.
    inference: Any

    @property
    def acts(self) -> bool:
        """Whether a call in the graph does more than give results, as drawing random numbers."""

    #: What the program did to autograd's graph.
    autograd: AutogradHistory
    #: What backwards of checkpoints read again.
    read_again: ReadAgain
    #: Counts the program's questions whether gradients are computed.
    asked_grad: int

    def record(self, op: str, target: Any, args: list[V], kwargs: dict[str, V]) -> V:
        """Add one call. ``op`` is ``"call_function"`` or ``"call_method"``; the result is a variable."""

    def without_arms(self, key: Any) -> NoReturn:
        """Evaluate again with a break at an `if`."""

    def keeps_apart(self, tensor: Any, op: str, target: Any) -> None:
        """Evaluate again where a method changes a tensor in place that an `if` handed on."""

    def know(self, tensor: Any) -> None:
        """A variable is the one that a fake stands for."""

    def input(self, value: torch.Tensor, source: Source) -> tuple[fx.Node, Any]:
        """A tensor from outside becomes an input of the graph: its node and its fake. Guards its metadata."""

    def outside(self, value: torch.Tensor, like: torch.Tensor, source: Source) -> Any:
        """The fake of a tensor from outside, of whose metadata a plain one is. Guards it, but for sizes that vary."""

    def size_input(self, size: torch.SymInt, source: Source) -> V:
        """A size of a tensor from outside, of which the graph holds nothing else."""

    def takes_no_symbols(self) -> None:
        """What is evaluated takes no sizes that vary: another attempt has none."""

    @property
    def is_below_autograd(self) -> bool:
        """Whether a class is being asked below autograd."""

    def as_by_numbers(self) -> AbstractContextManager[None]:
        """Meanwhile torch decides by sizes as it does by plain numbers, each decision guarded."""

    def below_autograd(self) -> AbstractContextManager[None]:
        """Meanwhile a class is asked below autograd, which follows nothing of what it does."""

    def number_input(self, value: int | float, source: Source) -> V | None:
        """A number from outside that is not the same each time becomes an input of the graph; None for one that is."""

    def number(self, tensor: Any, name: str, args: list[Any], kwargs: dict[str, Any], value: Any) -> V:
        """A symbolic size, stride or count of a tensor: one node per number."""

    def told(self, tensor: Any) -> Any:
        """The number that a tensor holds, guarded to stay so, where that is to be known; None where it is not."""

    def decide(self, condition: Any) -> bool | None:
        """What a condition on numbers found in data is, if that can be guarded; None where only the run can tell."""

    def state_call(self, target: Any, args: list[V]) -> None:
        """A call that changes torch's modes: recorded in the graph and made for real, to be undone after tracing."""

    @property
    def extent(self) -> tuple[int, int]:
        """How many calls and inputs the graph has, and how many tensors were met."""

    def enter_inference(self, block: V, mode: bool) -> None:
        """Inference mode is on, or off, until ``block`` is left. Raises ``Unsupported`` where the graph cannot say so."""

    def leave_inference(self, block: V) -> None:
        """It is as before ``block``."""

    def version(self, tensor: Any) -> int:
        """How often a tensor of the frame's own was written to. Raises ``Unsupported`` for one that shares its memory with one from outside."""

    def is_inference(self, tensor: Any) -> bool:
        """Whether a tensor was made in inference mode, by which guards, and calls in the graph, tell it. Raises ``Unsupported`` where they do not."""

    #: Torch's switches that the program has set.
    switches: Any

    def switch(self, setter: Any, args: tuple[Any, ...], value: Any) -> None:
        """The program sets one of torch's switches, as the graph will; raises what the setter raises."""

    def note_offset(self, tensor: Any) -> None:
        """Where a tensor begins in its storage is asked for."""

    def note_places(self, *variables: V) -> None:
        """The program acts on these tensors' places in autograd's graph, or on those of tensors within."""

    def require_history(self, outputs: Sequence[Any]) -> None:
        """Raise ``Unsupported`` where gradients of these lead through control flow in the graph."""


class Subgraphs(Protocol[V]):
    """Control flow that the graph holds, as operations over graphs of their own."""

    def conditional(self, condition: Any, branches: Sequence[Callable[[], V]], operands: Sequence[Any]) -> V:
        """What the first branch gives where the condition, a tensor, holds, else the second; `operands` always get a gradient."""

    def loop(
        self,
        condition: Callable[[list[V]], V],
        body: Callable[[list[V]], V],
        carried: Sequence[Any],
    ) -> V:
        """The body's values, beginning with `carried`, as soon as the condition does not hold of them."""

    def scan(
        self,
        step: Callable[[list[V]], V],
        carried: Sequence[Any],
        over: Sequence[Any],
        operands: Sequence[Any],
    ) -> list[V]:
        """What a step gives of what is carried and a slice of each of `over`: the last values carried, the rest of all steps."""

    def checkpointed(self, function: Callable[[], V], saves: Callable[..., bool] | None) -> tuple[V, list[fx.Node]]:
        """What a function gives, and its calls, marked as a checkpoint that `saves` some values. It must do nothing that counts twice."""

    def associative_scan(self, combine: Callable[[list[V]], V], over: Sequence[Any]) -> list[V]:
        """What the function makes of all slices of `over` up to each, of two of each at a time."""


class CustomGradients(Protocol[V]):
    """Backwards and hooks of the program in the graph."""

    def function(
        self,
        outputs: Sequence[Any],
        inputs: Sequence[Any],
        backward: Callable[[list[V]], tuple[V, Sequence[int]]],
        *,
        saved: Collection[Any],
        dirty: Collection[int],
        apart: Collection[int],
        once: bool,
        told: bool,
        clears: Callable[[], bool],
        plain: Callable[[list[fx.Node]], Any],
    ) -> list[V]:
        """The outputs, connected to the inputs. `backward` makes of gradients a tuple of those of inputs, and says of which.

        `plain` gives it as it is (a `PlainBackward`), and adds to the nodes that are given what that needs of the graph. So it
        runs where not all gradients are there, if it is `told` which are.
        """

    def hook(self, tensor: Any, function: Callable[[list[V]], V]) -> fx.Node | None:
        """Have a hook called with each gradient of a tensor: the call in the graph; None for one that changes nothing."""

    def replace(self, tensor: Any, gradient: Any) -> fx.Node:
        """The same of a hook that gives this gradient."""

    def unhook(self, node: fx.Node) -> None:
        """Take it away again."""


class Levels(Protocol[V]):
    """Levels of function transforms (vmap, grad, jvp)."""

    #: Whether the program's saved-tensor hooks are in force, which an evaluation does not see.
    under_hooks: bool

    @property
    def inside(self) -> bool:
        """Whether any level is entered: the graph cannot end here."""

    @property
    def on_symbols(self) -> AbstractContextManager[Any]:
        """What operations run in: within levels, where sizes are symbols, in what takes them."""

    def enter(self, function: Callable[..., int], args: list[V]) -> V:
        """Enter a level; the number that it has."""

    def leave(self, function: Callable[..., int]) -> V:
        """Leave the innermost level."""

    def set(self, function: Callable[..., Any], args: list[V]) -> None:
        """Set what holds within levels."""

    def level(self, number: V) -> V:
        """A level that is entered, as an argument of an operation."""


class FunctionModes(Protocol[V]):
    """Torch-function modes that the program has entered."""

    @property
    def count(self) -> int:
        """How many were entered or left, or torch functions switched off: the graph cannot end here, unless there are none."""

    @property
    def active(self) -> bool:
        """Whether anyone may be asked about a call: a mode, or the class of a value that was met."""

    def meet(self) -> None:
        """A value was met whose class is asked about calls."""

    def asks(self, values: Iterable[V]) -> bool:
        """Whether anyone is asked about a call with these values."""

    def silent(self) -> AbstractContextManager[None]:
        """Nobody is asked within."""

    def switch_off(self, modes_too: bool) -> None:
        """Classes of values are asked no more from here on, nor modes."""

    def switch_back(self) -> None:
        """It is as before the innermost of these."""

    @property
    def from_outside(self) -> int:
        """How many of those from outside of the frame are followed."""

    @property
    def added(self) -> int:
        """How many modes more are in force than where the frame begins."""

    @property
    def classes_off(self) -> bool:
        """Whether the program has switched off that classes of values are asked."""

    @property
    def modes_off(self) -> bool:
        """Whether it has switched off modes, too."""

    def enter(self, mode: V) -> None:
        """A mode is in force from here on."""

    def enter_device(self, device: torch.device) -> None:
        """Tensors are made on a device from here on."""

    def leave(self) -> V:
        """The innermost one is in force no more."""

    def at(self, place: int) -> V:
        """One of those in force, the outermost at 0."""

    def answer(self, function: Callable[..., Any], args: list[V], kwargs: dict[str, V]) -> V | None:
        """What the innermost mode makes of a call, or the class of an argument; None where torch asks none."""
