"""Results of calls on fakes that were made before in the same evaluation: the twelfth layer does what the first did.

In: a call and its fakes. Out: a new fake with the metadata that such a call's result had, or none. Kept is only what follows from
the arguments' metadata and torch's settings, which are the same until the program changes them.
"""

from __future__ import annotations

import types
from collections.abc import Hashable, Sequence
from typing import Any

import torch

from symshapes import FakeMode, FakeTensor

_FUNCTIONAL = vars(torch.nn.functional)


#: A call about to be made, as what its result follows from.
Call = tuple[Any, ...]


class KnownResults:
    """The results of one evaluation, by call."""

    def __init__(self, mode: FakeMode) -> None:
        self._mode = mode
        #: The metadata of a result and whether it was a view, or which argument it was.
        self._found: dict[Hashable, tuple[Any, bool] | int] = {}
        #: Whether what is a view, of a tensor that nobody else has, may be given anew as none: where gradients are never computed
        #: they differ in what `detach_` says of them.
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
        if not ours or torch.is_inference_mode_enabled() or _acts_in_place(op, target):
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
        meta, is_view = found
        self.gave_views = self.gave_views or is_view
        return self._mode.another(meta)

    def note(
        self, call: Call, before: tuple[Any, ...], args: Sequence[Any], kwargs: dict[str, Any], result: Any
    ) -> None:
        """Keep what a call gave, if it did nothing but to give it: a tensor of a storage of its own, or what it was given.

        ``before`` is what ``marks`` was.
        """
        if type(result) is not FakeTensor or self.marks() != before:
            return
        for place, value in enumerate(args):
            if value is result:
                self._found[call] = place
                return
        if result.requires_grad or result.fake_mode is not self._mode:
            return
        if hasattr(result, "made_by"):  # what it holds counts as well
            return
        if result._base is not None and not self.takes_views:
            return
        if not _shares(result.storage_key, (*args, *kwargs.values())):
            self._found[call] = self._mode.metadata(result), result._base is not None

    def marks(self) -> tuple[Any, ...]:
        """What stays as it is if nothing comes of a call but its result."""
        mode, env = self._mode, self._mode.shape_env
        counts = () if env is None else (env.count, len(env.guards), len(env.runtime_asserts), env.unbacked_count)
        return (
            mode.effects, mode.risks, mode.doubtful_copies, len(mode.numbers_read), len(mode.counted_from_start), *counts,
        )  # fmt: skip


def _acts_in_place(op: str, target: Any) -> bool:
    """Whether torch's names say so: what it gives back is what it was given, and not as it was (`requires_grad_`)."""
    name = target if op == "call_method" else getattr(target, "__name__", "")
    return name.endswith("_") and not name.endswith("__")


def _shares(storage: object, values: Sequence[Any]) -> bool:
    """Whether a tensor among values has this storage."""
    return any(
        value.storage_key is storage
        if isinstance(value, FakeTensor)
        else isinstance(value, tuple | list) and _shares(storage, value)
        for value in values
    )
