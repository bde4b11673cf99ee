"""What an operator's schema, tags and kernels say of it: what it writes to, what its results share, whether it acts.

In: an `OpOverload`. Out: its `OperatorFacts`, derived once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from symshapes import _torch
from symshapes.facts.data_errors import data_errors
from symshapes.records import dataclass

ELEMENTWISE = torch.Tag.pointwise
"""The tag by which an operator says, where it is defined, that `OperatorFacts.elementwise` holds of it."""
RANDOM = torch.Tag.nondeterministic_seeded
"""The same for `OperatorFacts.random`."""


@dataclass(frozen=True, slots=True)
class WrittenArgument:
    """One argument that an operator writes to. `position` is None where it is passed by keyword only."""

    name: str
    position: int | None
    is_list: bool
    is_out: bool

    def of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a call with these arguments passes there; None if nothing."""
        if self.position is None or self.position >= len(args):
            return kwargs.get(self.name)
        return args[self.position]


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """What is true of every call of one operator."""

    written: tuple[WrittenArgument, ...]
    """The arguments it writes to."""
    returns_written: tuple[int, ...]
    """For each result the number in `written` of the argument that it is; -1 where it is none of them."""
    functional: Any | None
    """The operator with the same inputs that writes to none of them; its last results are the values of `written`."""
    in_place: Any | None
    """The operator with the same inputs that writes its last results into those that it says it writes to, each where it began
    from: known where it was registered with `register_in_place`."""
    counts_each: bool
    """Whether its kernel counts a write to each tensor of the lists that it writes to. Of a list the dispatcher counts none."""
    reshapes: bool
    """Whether it gives its argument another size, strides or storage, as `t_` and `resize_` do."""
    composite: bool
    """Whether it is defined by other operators on every device."""
    aliases: bool
    """Whether a result may be a view of an argument (of a composite operator, such as `reshape`, it need not be)."""
    views: bool
    """Whether it only gives views of an argument."""
    random: bool
    """Whether it draws from a random generator."""
    acts: bool
    """Whether a call matters if nobody reads its results: it writes, draws random numbers, or has no results."""
    hides_views: bool
    """Whether results share an argument's storage although the schema calls them new."""
    fresh: bool
    """Whether its results are always new memory that nothing else refers to. Only of torch's own operators is this known,
    whose kernels torch's tests compare with their schemas."""
    needs_data: bool
    """Whether its results' metadata depend on its arguments' data."""
    data_errors: str
    """By what in its tensors its kernels may raise: `NOTHING`, `INTEGERS` or `ANYTHING`."""
    lasts: bool
    """Whether a call leaves behind what neither its results nor a generator of random numbers hold: it is the program's own operator,
    and gives nothing."""
    elementwise: bool
    """Whether each element of its result is computed from those at the same place of its arguments."""

    unsaid: tuple[WrittenArgument, ...]
    """The arguments that it writes to in training although its schema does not say so, so that no version counts it: running statistics."""
    launches: bool
    """Whether a call does nothing but launch work on the device, so that this may be recorded and repeated without it: known where it
    was registered with `register_launches`, and no matter of schemas."""

    apart: bool
    """Whether two calls of the same are two, each with results of its own, since those are written over by whoever reads them: known
    where it was registered with `register_apart`."""

    function: Callable[..., Any] | None
    """The function of Python's that does what a call does and may be called instead, as `register_function` was told."""

    @property
    def pure(self) -> bool:
        """Whether it does no more than compute new tensors."""
        return not (self.acts or self.composite or self.aliases)


_HIDDEN_VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        "_cudnn_rnn", "_lazy_clone", "_unsafe_view", "lift", "miopen_rnn", "set", "unsafe_chunk", "unsafe_split",
        "unsafe_split_with_sizes",
    )
)  # fmt: skip
"""Operators whose results share an argument's storage although their schemas call them new, so that autograd does too (and the
recurrent layers of GPU libraries, which give their packed weights back). 528 operators that torch's own tests run on the CPU were
watched: there are no others."""

#: Those of the operators with running statistics whose schemas do not say that they update them.
_UPDATING = frozenset(
    {
        "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts", "batch_norm_update_stats", "cudnn_batch_norm",
        "miopen_batch_norm", "native_batch_norm",
    }
)  # fmt: skip

#: Where operators that give nothing are checks.
_CHECKING = frozenset({"aten", "symshapes"})
_FACTS: dict[Any, OperatorFacts] = {}
_IN_PLACE: dict[Any, Any] = {}
_LAUNCHES: set[Any] = set()
_APART: set[Any] = set()
_FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def register_in_place(functional: Any, in_place: Any) -> None:
    """Say of an `OpOverload` which one does the same in the memory of its arguments (`OperatorFacts.in_place`)."""
    _IN_PLACE[functional] = in_place
    _FACTS.pop(functional, None)


def register_launches(op: Any) -> None:
    """Say of an `OpOverload` that it does nothing but launch work on the device (`OperatorFacts.launches`)."""
    _LAUNCHES.add(op)
    _FACTS.pop(op, None)


def register_apart(op: Any) -> None:
    """Say of an `OpOverload` that each of its calls needs results of its own (`OperatorFacts.apart`)."""
    _APART.add(op)
    _FACTS.pop(op, None)


def register_function(op: Any, function: Callable[..., Any]) -> None:
    """Say of an `OpOverload` what does the same without a dispatcher, which would take tens of microseconds to hand lists of tensors over
    (`OperatorFacts.function`): a function that its module has by its own name, with the arguments of the schema."""
    _FUNCTIONS[op] = function
    _FACTS.pop(op, None)


def facts_of(op: Any) -> OperatorFacts:
    """The facts of an `OpOverload`."""
    facts = _FACTS.get(op)
    if facts is None:
        facts = _FACTS[op] = _derive(op)
    return facts


def facts_if_operator(target: Any) -> OperatorFacts | None:
    """The facts of what a node of a graph calls; None where that is no `OpOverload`, so that nothing is known of it."""
    return facts_of(target) if isinstance(target, _torch.OpOverload) else None


def forget_operators() -> None:
    """Derive facts anew when they are asked for."""
    _FACTS.clear()


def _derive(op: Any) -> OperatorFacts:
    schema = op._schema
    written = _those_of(schema, _is_written)
    names = {
        name: number
        for number, argument in enumerate(filter(_is_written, schema.arguments))
        for name in argument.alias_info.before_set
    }
    composite = _torch.is_composite(op)
    aliases = any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns)
    hides_views = schema.name in _HIDDEN_VIEWS
    random = RANDOM in op.tags
    return OperatorFacts(
        written=written,
        returns_written=tuple(
            -1 if result.alias_info is None else names.get(next(iter(result.alias_info.before_set), ""), -1)
            for result in schema.returns
        ),
        functional=_functional(op) if written else None,
        in_place=_IN_PLACE.get(op),
        counts_each=any(each.is_list for each in written) and _torch.calls_for_each(op),
        reshapes=torch.Tag.inplace_view in op.tags,
        composite=composite,
        aliases=aliases,
        views=aliases and not written and not composite,
        random=random,
        acts=bool(written) or random or not schema.returns,
        hides_views=hides_views,
        fresh=op.namespace == "aten" and not (written or aliases or hides_views or composite),
        needs_data=torch.Tag.data_dependent_output in op.tags or torch.Tag.dynamic_output_shape in op.tags,
        data_errors=data_errors(
            op,
            elementwise=ELEMENTWISE in op.tags,
            composite=composite,
            views=aliases and not written and not composite,
        ),
        lasts=not (written or random or schema.returns) and op.namespace not in _CHECKING,
        elementwise=ELEMENTWISE in op.tags,
        unsaid=_those_of(schema, _is_statistic) if schema.name.removeprefix("aten::") in _UPDATING else (),
        launches=op in _LAUNCHES,
        apart=op in _APART,
        function=_FUNCTIONS.get(op),
    )


def _those_of(schema: Any, counts: Callable[[Any], bool]) -> tuple[WrittenArgument, ...]:
    return tuple(
        WrittenArgument(
            argument.name, None if argument.kwarg_only else position, _is_list(argument.type), argument.is_out
        )
        for position, argument in enumerate(schema.arguments)
        if counts(argument)
    )


def _is_statistic(argument: Any) -> bool:
    return argument.name in ("running_mean", "running_var") and not _is_written(argument)


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _is_list(kind: Any) -> bool:
    text = str(kind)
    return "List" in text or text.endswith("[]")


def _inputs(op: Any) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in op._schema.arguments if not argument.is_out]


def _functional(op: Any) -> Any | None:
    """The overload with the same inputs that writes to none. No schema names it, so it is sought under the names that torch
    gives such operators, and must then have the signature."""
    home = getattr(torch.ops, op.namespace)
    base = op._schema.name.partition("::")[2]
    wanted = _inputs(op)
    for name in dict.fromkeys((base.removesuffix("_"), base, f"{base.removesuffix('_')}_functional")):
        packet = getattr(home, name, None)
        for overload in () if packet is None else packet.overloads():
            candidate = getattr(packet, overload)
            if not any(map(_is_written, candidate._schema.arguments)) and _inputs(candidate) == wanted:
                return candidate
    return None


_OVERRIDE_QUESTIONS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_ASKED_BY = frozenset(_OVERRIDE_QUESTIONS)


def override_questions(function: FunctionType) -> tuple[str, ...]:
    """What a Python function of torch's calls, by these names, to learn whether one of its arguments overrides it.

    One that asks is an operation to whoever overrides; one that does not is plain code.
    """
    names = function.__code__.co_names
    return () if _ASKED_BY.isdisjoint(names) else tuple(name for name in _OVERRIDE_QUESTIONS if name in names)
