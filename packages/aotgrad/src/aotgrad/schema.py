"""What an op's schema says that tracing needs: does it view, write, draw random numbers; what computes the same purely.

In: an `OpOverload`. Out: an `OpFacts`, derived once an op.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import torch

from aotgrad import _torch, rng

aten = torch.ops.aten


class Kind(enum.Enum):
    """How the tracer treats an op."""

    PURE = enum.auto()  # new results from arguments
    RANDOM = enum.auto()  # as PURE, but never merged or removed
    EFFECT = enum.auto()  # returns nothing, so it acts: likewise
    SAME = enum.auto()  # the result is the argument, under another identity (detach, alias)
    VIEW = enum.auto()  # results are views of the first argument
    WRITE = enum.auto()  # writes to arguments
    RESHAPE = enum.auto()  # gives its argument other metadata (t_, squeeze_)
    COMPOSITE = enum.auto()  # is defined by other ops
    REFUSED = enum.auto()  # has no functional form


@dataclass(frozen=True, slots=True)
class Written:
    """One argument an op writes to."""

    position: int | None  # None: passed by keyword only
    name: str
    is_list: bool
    is_out: bool


@dataclass(frozen=True, slots=True)
class OpFacts:
    """Facts of one op. `functional` computes what a WRITE op writes (or, of a RESHAPE op, the view)."""

    kind: Kind
    written: tuple[Written, ...] = ()
    functional: Any | None = None
    returns_written: tuple[int, ...] = ()  # for each result of a WRITE op, the index in `written` it is; -1 if new


_FACTS: dict[Any, OpFacts] = {}

_SAME = {aten.detach.default, aten.alias.default, aten.lift_fresh.default}
_REFUSED = {aten.set_.source_Tensor, aten.resize_.default, aten.resize_as_.default, aten.set_.default}


def facts_of(op: Any) -> OpFacts:
    """The facts of `op`."""
    facts = _FACTS.get(op)
    if facts is None:
        facts = _FACTS[op] = _derive(op)
    return facts


def is_view(op: Any) -> bool:
    """Whether results of `op` share the storage of its first argument."""
    return isinstance(op, torch._ops.OpOverload) and facts_of(op).kind in (Kind.VIEW, Kind.SAME)


def _derive(op: Any) -> OpFacts:
    schema = op._schema
    if op in _SAME:
        return OpFacts(Kind.SAME)
    written = tuple(
        Written(
            None if argument.kwarg_only else position,
            argument.name,
            "List" in str(argument.type) or str(argument.type).endswith("[]"),
            argument.is_out,
        )
        for position, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    if op in _REFUSED or (op.namespace == "aten" and schema.name == "aten::set_"):
        return OpFacts(Kind.REFUSED)
    if written:
        return _derive_write(op, written)
    if _torch.is_composite(op):
        return OpFacts(Kind.COMPOSITE)
    if any(result.alias_info is not None for result in schema.returns):
        return OpFacts(Kind.VIEW)
    if not schema.returns:
        return OpFacts(Kind.EFFECT)
    return OpFacts(Kind.RANDOM if rng.is_random(op) else Kind.PURE)


def _derive_write(op: Any, written: tuple[Written, ...]) -> OpFacts:
    functional = _functional(op)
    if torch.Tag.inplace_view in op.tags:
        return OpFacts(Kind.REFUSED if functional is None else Kind.RESHAPE, written, functional)
    if functional is None and _torch.is_composite(op):
        return OpFacts(Kind.COMPOSITE)
    names = {name: index for index, argument in enumerate(written) for name in _alias_names(op, argument.name)}
    returned = tuple(
        names.get(next(iter(result.alias_info.before_set), ""), -1) if result.alias_info is not None else -1
        for result in op._schema.returns
    )
    return OpFacts(Kind.WRITE, written, functional, returned)


def _alias_names(op: Any, argument_name: str) -> list[str]:
    for argument in op._schema.arguments:
        if argument.name == argument_name and argument.alias_info is not None:
            return list(argument.alias_info.before_set)
    return []


def _functional(op: Any) -> Any | None:
    """The overload with the same inputs that writes nothing, found by name and signature, or None."""
    home = getattr(torch.ops, op.namespace)
    base = op._schema.name.partition("::")[2]
    wanted = [(a.name, str(a.type)) for a in op._schema.arguments if not a.is_out]
    names = [base, f"{base}_functional"] if not base.endswith("_") else [base[:-1], f"{base[:-1]}_functional"]
    for name in names:
        packet = getattr(home, name, None)
        if packet is None:
            continue
        for overload in packet.overloads():
            candidate = getattr(packet, overload)
            schema = candidate._schema
            if any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
                continue
            if [(a.name, str(a.type)) for a in schema.arguments] == wanted:
                return candidate
    return None
