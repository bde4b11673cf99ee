"""A call whose graph raises: the frame starts again, in the interpreter, and so the exception comes where the program raises it.

There the program's handlers are, its traceback is whole, and what it did before is done. In: a graph, what its run may leave
behind, and the code of its frame. Out: bytecode that follows where the call of the graph raises, which costs nothing where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from symshapes import OtherWay, undisturbed_autograd

from . import _native, _torch
from .bytecode import Handler, Instruction, build
from .settings import NESTING, in_force, put_back, putting_back, restored

Graph = Callable[..., Any]


class Undone(BaseException):
    """Signal: what the program does raises, and all that the graph had changed is as it was."""


class Start:
    """Asked by the code around a graph where that raises: whether the frame is to start again.

    Not where a backend fails that the program does not: ``captured`` is the graph to try as it is; ``as_it_is``: that is what ran.
    Nor where the graph left changes behind (``repeats`` is false), unless it took them back. Torch's settings are put back in any
    case: they may be those of a block that the graph is in.
    """

    def __init__(
        self,
        before: Mapping[str, Any],
        captured: Graph,
        *,
        as_it_is: bool,
        repeats: bool,
        waits: bool,
    ) -> None:
        self._before = before
        self._captured = captured
        self._as_it_is = as_it_is
        self._repeats = repeats
        self._waits = waits

    def __call__(self, error: BaseException, *inputs: Any) -> bool:
        put_back({**self._before, NESTING: in_force()[NESTING]})  # another call's may be within more blocks of autocast
        if isinstance(error, (Undone, OtherWay)):
            return True
        if not self._repeats or not is_of_call(error, self._waits):
            return False
        if self._as_it_is and _torch.saved_tensor_hooks(False) is None:
            return True
        return is_programs(error, self._captured, inputs)


def is_of_call(error: BaseException, waits: bool) -> bool:
    """Whether an exception is of the call that it leaves. Devices for which nobody ``waits`` tell of an earlier one, or what
    stops them for good if it is tried once more: places out of range, that is, for which torch has no classes of its own.
    """
    return isinstance(error, Exception) and (waits or type(error).__module__.startswith("torch"))


def is_programs(error: BaseException, captured: Graph, inputs: Sequence[Any]) -> bool:
    """Whether the program raises as well, and not what a backend made of it alone, nor a hook that takes what is saved for the backward
    (so a checkpoint ends what it computes again): they count how often they are called. Of memory the program may have more."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    try:
        with restored(), undisturbed_autograd():
            captured(*inputs)
    except Exception:
        return True
    return False


class Undoing:
    """A graph on the host of which nothing is left behind where it raises: ``written`` inputs and generators are as they were."""

    def __init__(
        self,
        compiled: Graph,
        captured: Graph,
        written: Sequence[int],
        generators: Sequence[torch.Generator],
    ) -> None:
        self._compiled = compiled
        self._captured = captured
        self._written = tuple(written)
        self._generators = tuple(generators)

    def __call__(self, *inputs: Any) -> Any:
        # Not by autograd, nor by what counts writes: the program's own writes are what counts.
        data = [without_repeats(inputs[i].data) for i in self._written]
        kept = [(each, each.clone()) for each in data]
        states = [generator.get_state() for generator in self._generators]
        try:
            return self._compiled(*inputs)
        except Exception as error:
            self._put_back(kept, states)
            undone = isinstance(error, OtherWay) or is_programs(error, self._captured, inputs)
            self._put_back(kept, states)
            if not undone:
                raise
        raise Undone

    def _put_back(self, kept: list[tuple[torch.Tensor, torch.Tensor]], states: list[torch.Tensor]) -> None:
        for tensor, before in kept:
            tensor.copy_(before)
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)


def without_repeats(tensor: torch.Tensor) -> torch.Tensor:
    """All memory of one that may be expanded, which nothing can be copied to."""
    if 0 in tensor.stride():
        for dim, stride in enumerate(tensor.stride()):
            if stride == 0 and tensor.shape[dim] > 1:
                tensor = tensor.narrow(dim, 0, 1)
    return tensor


def starting_again(
    start: Callable[..., bool],
    call: Sequence[Instruction],
    inputs: Sequence[Instruction],
    count: int,
    made: Sequence[str],
) -> list[Instruction]:
    """What follows where ``call`` raises, with nothing else on the stack; the frame's own code from its start comes after it.

    ``inputs`` push what is shown to ``start``; ``made`` are the locals stored so far, which the frame's own code does not know.
    """
    entered = Instruction("PUSH_EXC_INFO")
    failed = [*build.copy(3), Instruction("POP_EXCEPT"), Instruction("RERAISE", 1)]
    passing_on = Instruction("RERAISE", 0)
    asked = [
        entered,
        *build.push_callable(build.load_const(start)),
        *build.copy(3),
        *inputs,
        *build.call(1 + count),
        *build.pop_jump_if("false", passing_on),
        *build.pop(),
    ]
    for each in (*asked, passing_on):
        each.handler = Handler(failed[0], 1, True)
    for each in call:
        each.handler = Handler(entered, 0)
    again = [Instruction("POP_EXCEPT")]
    for name in made:
        again += build.delete_fast(name)
    start_of_frame = Instruction("NOP")
    return [*asked, *again, *build.jump(start_of_frame), passing_on, *failed, start_of_frame]


def eagerly(module: fx.GraphModule) -> Graph:
    """A graph run as it is, with nothing beneath it captured; its code is made when it is first called. Where it raises, torch's settings
    and switches are put back."""
    return putting_back(_native.DisabledCallable(lambda *inputs: module.forward(*inputs)), module.graph)
