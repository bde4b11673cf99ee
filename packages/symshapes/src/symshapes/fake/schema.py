"""What an op's schema says that the dispatch point needs: which results are arguments it wrote to, and so on."""

from dataclasses import dataclass
from typing import Any

import torch

from symshapes import _torch
from symshapes.rules.registry import RULES, Rule


@dataclass(frozen=True, slots=True)
class OpInfo:
    """Facts of one `OpOverload`.

    `written` names, per result, the argument (position or keyword) that the result is, or is None where any result is new.
    `functional` is the op without the in-place or out= form. `reshapes` is true of in-place views (`t_`, `resize_`).
    """

    rule: Rule | None
    written: tuple[int | str, ...] | None
    functional: Any | None
    needs_data: bool
    composite: bool
    reshapes: bool
    outs: tuple[str, ...]
    writes: bool
    """Whether it writes to an argument."""
    acts: bool
    """Whether running it matters even if nobody reads its results: it writes, draws random numbers, or returns nothing."""


def read(op: Any) -> OpInfo:
    """Derive the facts of `op` from its schema, tags and the rule table."""
    schema = op._schema
    positions: dict[str, int | str] = {}
    outs: list[str] = []
    for position, argument in enumerate(schema.arguments):
        alias = argument.alias_info
        where = argument.name if argument.kwarg_only else position
        if alias is not None and alias.is_write:
            for name in alias.before_set:
                positions[name] = where
            if argument.is_out:
                outs.append(argument.name)
    written: list[int | str] = []
    for result in schema.returns:
        alias = result.alias_info
        if alias is None or not alias.is_write:
            break
        written.append(positions[next(iter(alias.before_set))])
    all_written = bool(schema.returns) and len(written) == len(schema.returns)
    tags = op.tags
    return OpInfo(
        rule=RULES.get(op),
        written=tuple(written) if all_written else None,
        functional=_functional(op, bool(outs)) if all_written else None,
        needs_data=torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags,
        composite=_torch.is_composite(op),
        reshapes=torch.Tag.inplace_view in tags,
        outs=tuple(outs),
        writes=bool(schema.is_mutable),
        acts=schema.is_mutable or not schema.returns or torch.Tag.nondeterministic_seeded in tags,
    )


def _functional(op: Any, is_out: bool) -> Any | None:
    """The overload that computes the same result into a new tensor: the one that takes the same other arguments."""
    packet = op.overloadpacket
    if not is_out:
        namespace, _, base = packet._qualified_op_name.partition("::")
        packet = getattr(getattr(torch.ops, namespace), base.removesuffix("_"), None)
        if packet is None:
            return None
    wanted = _signature(op)
    for name in packet.overloads():
        candidate = getattr(packet, name)
        if _signature(candidate) == wanted and not candidate._schema.is_mutable:
            return candidate
    return None


def _signature(op: Any) -> list[tuple[str, str]]:
    """Positions and types of the arguments, results written through arguments left out."""
    return [
        (argument.name if argument.kwarg_only else "", str(argument.type))
        for argument in op._schema.arguments
        if not argument.is_out
    ]
