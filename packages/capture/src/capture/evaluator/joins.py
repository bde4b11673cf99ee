"""Where the two ways of a jump meet again, as the code's operations say: what comes between them are the arms of an `if`.

In: a code's operations, and a jump. Out: the operation at which all ways come together, the end where that is the return.
"""

from __future__ import annotations

from types import CodeType

from capture.bytecode.dialect import current
from capture.identity_map import IdentityMap
from symshapes import dataclass

from .program import Op, program_of

_RETURNS = frozenset({"RETURN_VALUE", "RETURN_CONST"})
_RAISES = frozenset({"RAISE_VARARGS", "RERAISE"})
#: By these names operations go to their target and nowhere else.
_ONWARD = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
#: What does something else than to compute, whatever it is given, or may leave the frame for a while.
_ACTS = _RAISES | {
    "STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF",
    "STORE_NAME", "DELETE_NAME", "YIELD_VALUE", "SEND", "GET_AWAITABLE",
}  # fmt: skip
#: What an operation of a loop's head goes past once the loop ends.
_PASSED = len(current().end_for())
#: Operations of a condition that are looked at.
_MOST = 100


@dataclass(frozen=True)
class Ways:
    """The ways of a jump: on, where it does not jump; where it jumps to; and where these meet, the number of operations for the end."""

    on: int
    target: int
    join: int


def ways_of(code: CodeType, op: Op) -> Ways | None:
    """The ways of a jump; None where one does something for certain, goes round, or never meets the other."""
    known = _known.get(code)
    if known is None:
        known = _known[code] = {}
    if op.index not in known:
        known[op.index] = _ways(code, op)
    return known[op.index]


def next_condition(code: CodeType, start: int, other: int) -> Op | None:
    """The jump to which nothing but the computing of its condition leads from `start`, and which goes to `other` as well; None if there is none."""
    ops = program_of(code).ops
    for op in ops[start : start + _MOST]:
        if op.name.startswith("POP_JUMP"):
            meets = {settled(ops, op.target), settled(ops, op.index + 1)}
            return op if "NONE" not in op.name and settled(ops, other) in meets else None
        if op.target >= 0 or op.name in _ACTS or op.name in _RETURNS or op.name.startswith(("STORE", "DELETE")):
            return None
    return None


def settled(ops: list[Op], at: int) -> int:
    """The operation at which a way that begins somewhere does something."""
    for _ in ops:
        if ops[at].name == "JUMP_FORWARD":
            at = ops[at].target
        elif ops[at].name in ("NOP", "NOT_TAKEN"):
            at += 1
        else:
            break
    return at


_known: IdentityMap[CodeType, dict[int, Ways | None]] = IdentityMap()
_joins: IdentityMap[CodeType, list[int]] = IdentityMap()


def _ways(code: CodeType, op: Op) -> Ways | None:
    ops = program_of(code).ops
    joins = _joins.get(code)
    if joins is None:
        joins = _joins[code] = _nearest_joins(ops)
    join = joins[op.index]
    if join < 0:
        return None
    found = Ways(op.index + 1, op.target, join)
    if _goes_round(ops, found) or any(_acts(ops, start, join) for start in (found.on, found.target)):
        return None
    return found


def _following(ops: list[Op], at: int) -> list[int]:
    """What may come after an operation that does not raise; the number of operations for the end."""
    op = ops[at]
    if op.name in _RETURNS:
        return [len(ops)]
    if op.name in _RAISES:
        return []
    found = [] if op.name in _ONWARD or at + 1 == len(ops) else [at + 1]
    if op.target >= 0:
        found.append(op.target + _PASSED if op.name == "FOR_ITER" else op.target)
    return found


def _nearest_joins(ops: list[Op]) -> list[int]:
    """By operation: the nearest that all ways from it pass which do not raise; -1 where there is no such way.

    Immediate postdominators: Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm", on the reversed graph.
    """
    end = len(ops)
    after = [_following(ops, at) for at in range(end)]
    before: list[list[int]] = [[] for _ in range(end + 1)]
    for at, following in enumerate(after):
        for each in following:
            before[each].append(at)
    order: dict[int, int] = {}  # each after all that lead to it from the end
    stack = [(end, iter(before[end]))]
    seen = {end}
    while stack:
        at, left = stack[-1]
        for each in left:
            if each not in seen:
                seen.add(each)
                stack.append((each, iter(before[each])))
                break
        else:
            stack.pop()
            order[at] = len(order)
    found = [-1] * (end + 1)
    found[end] = end
    ranked = sorted((at for at in order if at != end), key=lambda at: -order[at])
    changed = True
    while changed:
        changed = False
        for at in ranked:
            new = -1
            for each in after[at]:
                if found[each] < 0:
                    continue
                while new >= 0 and new != each:
                    if order[new] < order[each]:
                        new = found[new]
                    else:
                        each = found[each]
                new = each
            if found[at] != new:
                found[at], changed = new, True
    return found[:end]


def _goes_round(ops: list[Op], ways: Ways) -> bool:
    """Whether a way goes back before it comes to where they meet."""
    waiting, seen = [ways.on, ways.target], {ways.on, ways.target}
    while waiting:
        at = waiting.pop()
        if at in (ways.join, len(ops)):
            continue
        for each in _following(ops, at):
            if each <= at and each != ways.join:
                return True
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return False


def _acts(ops: list[Op], start: int, join: int) -> bool:
    """Whether a way does something else than to compute before it comes to a fork, or to where it meets the other."""
    at = start
    while at not in (join, len(ops)):
        if ops[at].name in _ACTS:
            return True
        following = _following(ops, at)
        if len(following) != 1:
            return False
        (at,) = following
    return False
