"""Masks: what changes the scores of an attention written out, as what torch's one-kernel attention takes.

In: terms. Out: a `Mask`: nothing, causal, or what is hidden and what is added to the scores. Of rows that may see no key at all it
says what the program makes of them, since a kernel makes zeros of them, or whatever it likes (`blind`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from aotgrad.attention.calls import reading, value_of
from aotgrad.attention.constants import Constants
from aotgrad.attention.match import MUST_HIDE, Term
from symshapes import dataclass

_VIEWS = ("expand", "view", "same", "cast", "unsqueeze", "subscript", "transpose", "permute")


@dataclass(frozen=True)
class Mask:
    """What happens to the scores.

    `causal`: query i sees the keys up to i, and no more happens. `hidden`: what hides some, all in one way; `added`: what is added
    besides. `blind`: whether some row may be hidden altogether. `lost`: whether a row of
    what is added may be so low that scores are lost in it, or -inf.
    """

    hidden: tuple[Term, ...] = ()
    added: tuple[Term, ...] = ()
    causal: bool = False
    blind: bool = False
    lost: bool = False

    @property
    def terms(self) -> tuple[Term, ...]:
        """All that it is made of."""
        return (*self.hidden, *self.added)


def mask_of(terms: Sequence[Term], dtype: torch.dtype, grad: bool, constants: Constants) -> Mask | None:
    """The mask that the terms make; None where one in this dtype (or, with `grad`, its gradient) would not do what they do."""
    read = [_as_hiding(term, constants) for term in terms]
    known = {term: _known(term, constants) for term in read}
    fixed = [found for found in known.values() if found is not None and bool(found.any())]
    idle = {term for term, found in known.items() if found is not None and not bool(found.any())}
    hidden = tuple(term for term in read if term.kind == "hide" and term not in idle)
    added = tuple(term for term in read if term.kind == "add")
    union = _union(fixed)
    if union is None:
        return None
    blind = len(fixed) < len(hidden) or bool(union.all(-1).any())
    if not added and not blind:
        return Mask(causal=True) if fixed and _is_causal(union) else Mask(hidden)
    # A row of which all scores are hidden weighs the highest of what they are.
    ways = {(term.value, term.replaces) for term in hidden}
    # Numbers added twice are lower still, and what else there is in a row is then seen through them.
    twice = len(hidden) > 1 and any(value != -math.inf and not replaces for value, replaces in ways)
    if blind and grad and any(_is_felt(term, read) for term in added):
        return None
    if (blind and (len(ways) > 1 or twice)) or any(value_of(term.node).dtype != dtype for term in added):
        return None
    lost = any(_may_be_lost(term, constants) for term in added)
    if lost and (len(read) > 1 or grad):
        return None
    return Mask(hidden, added, blind=blind, lost=lost)


def _is_felt(term: Term, terms: Sequence[Term]) -> bool:
    """Whether what is added has a gradient by scores that are hidden, where all of a row are: `terms` have the last change first."""
    before = terms[: terms.index(term)]
    hides = [other for other in terms if other.kind == "hide"]
    return value_of(term.node).requires_grad and not all(other.replaces and other in before for other in hides)


def _as_hiding(term: Term, constants: Constants) -> Term:
    """A mask that adds zero to some scores, and to the others a number so low that they are lost in it: as one that hides these."""
    kind, arguments = reading(term.node)
    found = constants.of(term.node)
    if term.kind == "hide":
        return term
    if isinstance(found, torch.Tensor) and found.dtype.is_floating_point:
        low = found <= MUST_HIDE * torch.finfo(found.dtype).min
        least = found.min().item() if found.numel() else 0.0
        if bool((low | (found == 0)).all()) and bool((found[low] == least).all()):
            return Term("hide", term.node, term.level, least, replaces=False)
    if kind not in ("choose", "fill"):
        return term
    condition = arguments.get("mask" if kind == "fill" else "condition")
    mask, value = value_of(condition), value_of(term.node)
    if not isinstance(mask, torch.Tensor) or mask.dtype is not torch.bool or not isinstance(condition, fx.Node):
        return term
    if constants.is_written(term.node) or constants.is_written(condition):
        return term  # what is added need not be what was made of the condition, nor the condition what it was then
    whole = constants.of(arguments.get("input"))
    if isinstance(whole, torch.Tensor) and whole.numel() and not bool(whole.any()):
        whole = 0.0
    rest = whole if type(whole) is float else constants.number(arguments.get("input"))
    other = constants.number(arguments.get("value" if kind == "fill" else "other"))
    if rest is None or other is None or {rest, other} != {0.0, low_of(min(rest, other))}:
        return term
    least = float(torch.tensor(min(rest, other), dtype=torch.float64).to(value.dtype))
    inverted = kind == "choose" and other < rest
    if kind == "fill" and rest < other:
        return term
    if least > MUST_HIDE * torch.finfo(value.dtype).min or mask.dim() > len(term.level):
        return term
    return Term("hide", condition, term.level, least, inverted, replaces=False)


def low_of(number: float) -> float:
    """The number itself where it is below zero."""
    return number if number < 0 else math.nan


def _known(term: Term, constants: Constants) -> torch.Tensor | None:
    """Which scores a mask hides, where that is known."""
    found = constants.of(term.node)
    if term.kind != "hide" or not isinstance(found, torch.Tensor):
        return None
    return hides(term, found)


def hides(term: Term, mask: torch.Tensor) -> torch.Tensor:
    """Where a term hides scores, of the value of its node."""
    if mask.dtype is not torch.bool:
        return mask <= MUST_HIDE * torch.finfo(mask.dtype).min
    return mask.logical_not() if term.inverted else mask


def _union(masks: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The scores that any of them hides, as a matrix that is the same for all heads and batches; None if it is not."""
    union = torch.zeros(1, 1, dtype=torch.bool)
    for mask in masks:
        if mask.dim() < 2:
            mask = mask.reshape(1, -1)
        rows = mask.reshape(-1, *mask.shape[-2:]) if any(mask.stride()[:-2]) else mask[(0,) * (mask.dim() - 2)][None]
        if not bool((rows == rows[:1]).all()):
            return None
        union = union | rows[0]
    return union


def _is_causal(hidden: torch.Tensor) -> bool:
    return bool((hidden == torch.ones(hidden.shape, dtype=torch.bool).triu(1)).all())


def _may_be_lost(term: Term, constants: Constants) -> bool:
    """Whether a mask that is added may hold numbers so low that scores are lost in them: one that comes from outside, or of which the
    graph computes with such numbers. Only a parameter is trusted to be none."""
    known = constants.of(term.node)
    if isinstance(known, torch.Tensor):
        return bool((known <= MUST_HIDE * torch.finfo(known.dtype).min).any())
    given, node = True, term.node
    todo, seen = [(node, given)], set[fx.Node]()
    while todo:
        node, given = todo.pop()
        value = value_of(node)
        if node in seen or not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
            continue
        seen.add(node)
        if constants.is_written(node):
            return True
        if not node.op.startswith("call_"):
            if given and not value.requires_grad:
                return True
            continue
        if node.target in (torch.log, "log") or _names_a_low_number(node):
            return True
        only_seen = given and reading(node)[0] in _VIEWS
        todo.extend((read, only_seen) for read in node.all_input_nodes)
    return False


def _names_a_low_number(node: fx.Node) -> bool:
    found: list[Any] = []
    fx.node.map_aggregate((node.args, tuple(node.kwargs.values())), found.append)
    return any(type(one) in (int, float) and not abs(one) < 1e30 for one in found)
