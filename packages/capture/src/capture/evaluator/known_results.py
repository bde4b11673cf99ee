"""Results of calls on fakes that were made before in the same evaluation: the twelfth layer does what the first did.

In: a call and its fakes. Out: a new fake with the metadata that such a call's result had, or none. Kept is only what follows from
the arguments' metadata and torch's settings, which are the same until the program changes them.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch

from symshapes import FakeMode, FakeTensor

_FUNCTIONAL = vars(torch.nn.functional)


#: A call about to be made, as what its result follows from.
Call = tuple[Any, ...]


class Known(NamedTuple):
    """What comes of a call: a tensor's metadata, which argument it shares the storage of, if any, whether torch takes it for a
    view, and how often random numbers are drawn for it."""

    metadata: Any
    shares: int | None
    is_view: bool
    draws: int


class KnownResults:
    """The results of one evaluation, by call."""

    def __init__(self, mode: FakeMode) -> None:
        self._mode = mode
        #: What a call gives, or which argument it gives back.
        self._found: dict[Hashable, Known | int] = {}
        #: Whether what is a view may be given anew as none, of a tensor that nobody else has or that nobody has written to: where
        #: gradients are never computed they differ in what `detach_` says of them, and in whether a write to one counts as one
        #: to the other, which the mode watches for (`FakeMode.view_apart`).
        self.takes_views = not torch.is_grad_enabled()
        #: Whether one was.
        self.gave_views = False

    def clear(self) -> None:
        """Torch's settings change."""
        self._found.clear()

    def call(self, op: str, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Call | None:
        """The call, if its result may be known, or worth knowing: of a function of torch's that makes a tensor, say."""
        ours = (
            op == "call_method"
            or isinstance(target, types.BuiltinFunctionType)
            or getattr(target, "__globals__", None) is _FUNCTIONAL
        )
        if not ours or torch.is_inference_mode_enabled() or acts_in_place(op, target):
            return None
        differentiates = torch.is_grad_enabled()
        positional = self._mode.signature(args, differentiates)
        named = self._mode.signature(kwargs.values(), differentiates) if kwargs else ()
        if positional is None or named is None:
            return None
        return op, target, differentiates, positional, tuple(kwargs), named

    def find(self, call: Call, args: Sequence[Any]) -> Any | None:
        """A result as such a call had, made anew; None where there was none."""
        found = self._found.get(call)
        if found is None:
            return None
        if isinstance(found, int):
            return args[found]
        base = None if found.shares is None else args[found.shares]
        if base is not None and self._mode.was_written(base):
            return None
        self.gave_views = self.gave_views or found.is_view
        self._mode.draw(found.draws)
        return self._mode.another(found.metadata) if base is None else self._mode.view_apart(found.metadata, base)

    def note(
        self, call: Call, before: tuple[Any, ...], args: Sequence[Any], kwargs: dict[str, Any], result: Any
    ) -> None:
        """Keep what a call gave, if it did nothing but to give it and to draw random numbers: a tensor, or what it was given.

        ``before`` is what ``marks`` was.
        """
        if type(result) is not FakeTensor:
            return
        (effects, draws, *others), now = before, self.marks()
        drawn = now[1] - draws
        if others != list(now[2:]) or now[0] - effects != drawn:  # each that draws is counted as an effect, too
            return
        for place, value in enumerate(args):
            if value is result:
                if not drawn:
                    self._found[call] = place
                return
        if result.requires_grad or result.fake_mode is not self._mode:
            return
        if hasattr(result, "made_by"):  # what it holds counts as well
            return
        is_view = result._base is not None
        if is_view and not self.takes_views:
            return
        shares = [place for place, value in enumerate(args) if _shares(result.storage_key, (value,))]
        if _shares(result.storage_key, tuple(kwargs.values())):
            return
        if shares and (len(shares) > 1 or type(args[shares[0]]) is not FakeTensor or not is_view):
            return
        self._found[call] = Known(self._mode.metadata(result), shares[0] if shares else None, is_view, drawn)

    def marks(self) -> tuple[Any, ...]:
        """What stays as it is if nothing comes of a call but its result."""
        mode, env = self._mode, self._mode.shape_env
        counts = () if env is None else (env.count, len(env.guards), len(env.runtime_asserts), env.unbacked_count)
        return (
            mode.effects, mode.draws, mode.writes, mode.lasting, mode.risks, mode.doubtful_copies, len(mode.numbers_read), mode.counts_from_start, *counts,
        )  # fmt: skip


def acts_in_place(op: str, target: Any) -> bool:
    """Whether torch's names say so: what it gives back is what it was given, and not as it was (`requires_grad_`)."""
    name = target if op == "call_method" else getattr(target, "__name__", "")
    if op != "call_method" and getattr(operator, name, None) is target:
        return False  # `and_`
    name = name.partition(".")[0]  # before an overload's own
    return name.endswith("_") and not name.endswith("__")


def _shares(storage: object, values: Sequence[Any]) -> bool:
    """Whether a tensor among values has this storage."""
    return any(
        value.storage_key is storage
        if isinstance(value, FakeTensor)
        else isinstance(value, (tuple, list)) and _shares(storage, value)
        for value in values
    )
