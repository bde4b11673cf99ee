"""Passes over loop bodies: how the rows of `body_rows` are applied to operations while they are recorded.

Flows in: an operation about to be recorded. Flows out: what to record in its place, or the value that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from inductor.ir.operations import Elementwise, Expr, Op, Ref
from inductor.ir.recording import LoopRecorder
from inductor.passes.patterns import BodyMatch, Of, match_op
from inductor.primitives import PRIMITIVES
from symshapes import dataclass


@dataclass(frozen=True)
class BodyPass:
    """One rewrite of an operation of a loop body.

    It is exact: the operation and what takes its place give the same bits for all operands, those that are not finite, and
    negative zeros, too.
    """

    name: str
    """For `Options.disabled_passes`, and for counting; no other pass has it."""
    why: str
    """What makes it right, and what it is good for."""
    pattern: Of
    rewrite: Callable[[BodyMatch], Any]
    """What is recorded instead: an operation, or a value (`Ref`) that there is; of an `Indirect` an expression. None: nothing."""
    when: Callable[[BodyMatch], bool] | None = None
    """What else has to hold of a match."""


class BodyRewriter:
    """Applies body passes, in their order, until none has anything to say."""

    def __init__(self, passes: Iterable[BodyPass]) -> None:
        self._passes: dict[type[Op] | str, list[BodyPass]] = {}
        for one in passes:
            primitive = one.pattern.fields.get("primitive")
            for kind in (
                (one.pattern.kind,)
                if one.pattern.kind is not Elementwise
                else (primitive,)
                if primitive
                else PRIMITIVES
            ):
                self._passes.setdefault(kind, []).append(one)
        self.kinds: Collection[type[Op] | str] = self._passes.keys()

    def __call__(self, operation: Op, body: LoopRecorder) -> Op | Ref | Expr | None:
        """What takes the operation's place in `body`; None: nothing does."""
        latest: Any = None
        while (made := self._once(operation if latest is None else latest, body)) is not None:
            latest = made
        return latest

    def _once(self, operation: Any, body: LoopRecorder) -> Any:
        kind = operation.primitive if isinstance(operation, Elementwise) else type(operation)
        for one in self._passes.get(kind, ()):
            match = match_op(one.pattern, operation, body)
            if match is None or not (one.when is None or one.when(match)):
                continue
            made = one.rewrite(match)
            if made is not None:
                body.rewrites[one.name] = body.rewrites.get(one.name, 0) + 1
                return made
        return None
