"""Ways through a frame's code that end in an exception, as its operations say.

In: operations, or the frames that are evaluated. Out: whether all ways from a place raise; whether a handler may go on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from .frame import Frame
from .handled import blocks_that_pass_on
from .program import Op

_LEAVES = frozenset({"RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "YIELD_VALUE", "SEND"})
_RAISING = frozenset({"RAISE_VARARGS", "RERAISE"})
#: By these names operations go to their target and nowhere else.
_ONWARD = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
#: Operations of a way that are looked at.
_MOST = 200
#: Among what an evaluation has found out: that its graph leaves behind what cannot be taken back, so that nothing can start again.
STAYS = "a graph that cannot start again"


def raises(ops: Sequence[Op], start: int, passing: Collection[int] = ()) -> bool:
    """Whether all ways from an operation on end in an exception that leaves the frame.

    ``passing``: where handlers of blocks begin that end no exception.
    """
    waiting, seen = [start], {start}
    while waiting:
        op = ops[waiting.pop()]
        if op.name in _LEAVES or len(seen) > _MOST:
            return False
        following: list[int] = []
        if op.index in passing:  # it leaves the block, and raises again
            following.append(next(each.index for each in ops[op.index :] if each.name == "RERAISE"))
        elif op.name in _RAISING:
            following += [op.catch] if op.catch >= 0 else []
        elif op.name not in _ONWARD:
            following.append(op.index + 1)
        if op.target >= 0 and op.index not in passing:
            following.append(op.target)
        waiting += [each for each in following if each not in seen]
        seen.update(following)
    return True


def may_go_on(frames: Iterable[Frame]) -> bool:
    """Whether a handler around what is evaluated may go on without an exception: those that only raise another are for one call in many."""
    return any(
        frame.op.catches and not raises(frame.program.ops, frame.op.catch, blocks_that_pass_on(frame))
        for frame in frames
    )
