"""What scalar tensors hold (a count of steps, the width of a padding), where numbers and tensors that a call brings tell it,
and short ones (a list of lengths, positions), where numbers alone do. It is computed where the tensors lie, for other devices round otherwise.

In: calls as they are recorded, and decisions by numbers found in data. Out: what the decision is now, guarded to be the same at other
calls; and the numbers themselves, of those that numbers alone tell, and of the others where nothing goes on without.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import EllipsisType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from capture._native import address
from capture._torch import add_to_each, beneath_levels, held_alone, inside, is_wrapped
from capture.sources import Source, is_module_owned
from capture.trace_rules import is_recorded_builtin
from capture.variables.assumptions import Guards
from capture.variables.tensors import Tensor
from symshapes import FakeTensor, dataclass, is_unbacked, print_expr, python_kernels

from .drawn_scalars import DrawnScalars

#: Calls that add to their first argument in place, each tensor of it if it is a list.
_ADDING = frozenset({operator.iadd, "add_", add_to_each})
#: Calls that write numbers, or what another tensor holds, over what their first argument holds, or over a part of it.
_WRITING = frozenset({"fill_", "zero_", "copy_", operator.setitem})
_NUMBERS = (int, float)
_INT = frozenset({int})
_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
_PLACED = frozenset({*_PLAIN, slice, EllipsisType})
_NAMES = {"math": math, "operator": operator}

#: How many elements of a tensor are computed for what the program may ask of them.
_MOST = 1024

#: What tensors hold, by the ids of their variables and of what is computed of them.
Given = dict[int, torch.Tensor]
#: Sizes, strides and offset of a tensor, all of them known, and how its elements are read.
Layout = tuple[tuple[int, ...], tuple[int, ...], int, object]


@dataclass(frozen=True, eq=False)
class Value:
    """How what a tensor holds is computed: a guard may live on with it, and keeps nothing of the evaluation."""

    compute: Callable[[Given], torch.Tensor]

    def of(self, given: Given) -> torch.Tensor:
        """A real tensor; what is computed of others is left in `given`."""
        found = given.get(address(self))
        if found is None:
            found = given[address(self)] = self.compute(given)
        return found


@dataclass(frozen=True, eq=False)
class Held:
    """What a tensor holds, as computed of what `origins` held when the frame began."""

    origins: tuple[Tensor, ...]
    value: Value
    #: Whether it is what its one origin holds but for numbers added to it, which is another one at each call where steps are counted.
    counts: bool
    layout: Layout
    #: Whether it is the same whatever its origins held, which constants were written over: that nothing else has their memory counts.
    over: bool = False

    def now(self) -> torch.Tensor:
        """What it holds at this call."""
        with torch.no_grad(), beneath_levels():
            return self.value.of(
                {address(origin): origin.value.detach() for origin in self.origins if origin.value is not None}
            )


class _Made:
    """What a call makes of numbers alone, made for real when somebody asks: of nearly all nobody does."""

    def __init__(self, compute: Callable[[Given], torch.Tensor], device: torch.device, layout: Layout) -> None:
        self._compute: Callable[[Given], torch.Tensor] | None = compute
        self._device = device
        self.layout = layout
        self._found: torch.Tensor | None = None

    def __call__(self, given: Given) -> torch.Tensor:
        """The tensor. Raises what the call raises, and ValueError where it gives something else than its fake."""
        if self._compute is not None:
            compute, self._compute = self._compute, None  # which keeps what it is made of
            with beneath_levels():
                made = compute({})
            if made.device == self._device and _layout(made) == self.layout:
                self._found = made
        if self._found is None:
            raise ValueError("not known")
        return self._found


@dataclass(frozen=True, eq=False)
class Number:
    """How a number is computed of those that tensors hold."""

    function: Callable[..., Any]
    values: tuple[Value, ...]

    def of(self, given: Given) -> Any:
        """The number."""
        return self.function(*[value.of(given).item() for value in self.values])


@dataclass(frozen=True, eq=False)
class Term:
    """A number computed of those that tensors hold: a length of rows that a padding added to."""

    origins: tuple[Tensor, ...]
    value: Number
    over: bool = False


def _is_same(told: Held | Term) -> bool:
    """Whether it is the same at each call: of numbers alone, or of what constants were written over."""
    return told.over or not told.origins


#: Types of arguments that hold no others.
_LEAVES = frozenset({*_PLAIN, torch.Tensor, FakeTensor, Held, Term, Value, Number})


def _leaves(args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Arguments, and what is in those that are containers."""
    found = [*args, *kwargs.values()]
    return found if _LEAVES.issuperset(map(type, found)) else tree_leaves([args, kwargs])


def _mapped(
    function: Callable[[Any], Any], args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """What a function gives of each of these, as arguments."""
    if _LEAVES.issuperset(map(type, (*args, *kwargs.values()))):
        return [function(each) for each in args], {name: function(each) for name, each in kwargs.items()}
    mapped: tuple[list[Any], dict[str, Any]] = tree_map(function, (args, kwargs))
    return mapped


def _condition(expr: Any, symbols: Sequence[Any]) -> Callable[..., Any]:
    """A Python function of the symbols' numbers."""
    names = {symbol: f"n{place}" for place, symbol in enumerate(symbols)}
    found: Callable[..., Any] = eval(
        f"lambda {', '.join(names.values())}: {print_expr(expr, 'python', names=names)}", dict(_NAMES)
    )
    return found


class ScalarTensors:
    """What of one attempt's scalar tensors is known."""

    def __init__(
        self,
        guards: Guards,
        variables: Mapping[int, Tensor],
        steady: Callable[[Source, Any], bool],
        settled: Callable[[Source, str, bool], bool],
    ) -> None:
        self._guards = guards
        #: Those of tensors, as there come to be more, by the identity of their fakes.
        self._variables = variables
        #: Whether earlier captures met the same number in a tensor from there; and seldom decided otherwise by it at that place.
        self._steady = steady
        self._settled = settled
        #: By the storage, what the last tensor that was made of it held, None where that is not known, and how often it was written to then.
        self._held: dict[object, tuple[Held | None, int]] = {}
        #: What numbers alone make, and may not have made yet.
        self._unmade: list[_Made] = []
        #: The scalars that were computed.
        self._results: list[Any] = []
        #: Whether numbers alone have made one.
        self.some_are_made = False
        self._numbers: dict[Any, Held] = {}
        self._lost = False
        #: The storages that were written to.
        self._written_to: set[object] = set()
        #: Whether torch's settings were others when something was computed.
        self._set_anew = False
        self._drawn = DrawnScalars()

    def recorded(self, target: Any, args: list[Any], kwargs: dict[str, Any], result: Any, effect: str) -> None:
        """A call was recorded, whose `effect` is "write", another or ""."""
        if effect == "write":
            self._written_to.update(
                inside(each).storage_key for each in tree_leaves([args, kwargs]) if isinstance(each, torch.Tensor)
            )
            self._write(target, args, kwargs)
        elif target == "item" and is_unbacked(result):
            held = self._of(args[0])
            if held is not None and result.node.expr.is_Symbol:
                self._numbers.setdefault(result.node.expr, held)
        elif effect:
            if isinstance(result, FakeTensor) and not result.dim() and _is_one(result):
                self._drawn.note(target, result)
        elif not isinstance(result, torch.Tensor):
            return
        elif (answer := self._drawn.comparison(target, args)) is not None:
            device = result.device
            told = Value(lambda given: torch.tensor(answer, device=device))
            self._hold(result, Held((), told, True, _layout(result)))
        elif self._is_of_unknown(args):
            return
        elif not is_wrapped(result) and _is_short(result):
            self._compute(target, args, kwargs, result)

    def settle(self) -> None:
        """Torch's settings are about to change: what calls so far made of numbers is computed under those of now."""
        self._set_anew = True
        for made in self._unmade:
            with contextlib.suppress(Exception):  # the program's own, which the run will tell
                made({})
        self._unmade.clear()

    def forget(self) -> None:
        """Calls are taken out of the graph again."""
        self._lost = True

    def decide(self, value: Any) -> bool | None:
        """What a condition on numbers found in data is, and stays by a guard; None where only the run can tell."""
        symbols = sorted(value.node.expr.free_symbols, key=str)
        held = [self._numbers.get(symbol) for symbol in symbols]
        known = [each for each in held if each is not None]
        origins = {address(origin): origin for each in known for origin in each.origins}
        if self._lost or len(known) < len(held) or len(origins) > 1 or not all(each.counts for each in known):
            return None
        number = Number(_condition(value.node.expr, symbols), tuple([each.value for each in known]))
        brought = dict.fromkeys(origins, 0)

        def now(tensor: torch.Tensor | None) -> bool:
            given = {} if tensor is None else {key: tensor.detach() for key in brought}
            return bool(number.of(given))

        (origin,) = origins.values() if origins else (None,)
        assert origin is None or origin.value is not None
        try:
            decided = now(None if origin is None else origin.value)
        except Exception:  # the program's own, which the run will tell
            return None
        if origin is None:
            return decided

        alone = self._is_alone(origin)

        def same(tensor: Any) -> bool:
            return alone(tensor) and now(tensor) is decided

        told = print_expr(value.node.expr, "python")
        self._guards.predicate(origin, same, f"what {{}} holds decides the same: {told} is {decided}")
        return decided

    def truth(self, fake: Any, where: str) -> bool | None:
        """Whether what a tensor holds, as one from outside tells it, is true at this place, and stays so by a guard; None where only the run
        can tell, and where that has turned often."""
        held = None if self._lost or self._set_anew else self._of(fake)
        origins = {} if held is None else {address(origin): origin for origin in held.origins}
        if held is None or len(origins) != 1:
            return None
        ((at, origin),) = origins.items()
        try:
            decided = bool(held.now())
        except Exception:  # the program's own, which the run will tell
            return None
        if origin.source is None or not self._settled(origin.source, where, decided):
            return None
        value, alone = held.value, self._is_alone(origin)

        def same(tensor: Any) -> bool:
            return alone(tensor) and bool(value.of({at: tensor.detach()})) is decided

        self._guards.predicate(origin, same, f"what {{}} holds decides the same: it is {decided} at {where}")
        return decided

    # The numbers themselves

    def could_tell(self, expr: Any) -> bool:
        """Whether all numbers of an expression are held by tensors of which it can be told."""
        self.note_numbers([*self._results, *(v.fake for v in self._variables.values() if v.value is not None)])
        symbols = expr.free_symbols
        if not symbols or self._lost or not symbols <= self._numbers.keys():
            return False
        return all(map(self._is_steady, (self._numbers[symbol] for symbol in symbols)))

    def _is_steady(self, held: Held) -> bool:
        return _is_same(held) or all(
            origin.source is not None and origin.value is not None and self._steady(origin.source, origin.value.item())
            for origin in held.origins
        )

    def note_numbers(self, values: Any) -> None:
        """These stood for numbers in a call, which are symbols now."""
        for fake in tree_leaves(values):
            found = fake.fake_mode.number_in(fake) if isinstance(fake, FakeTensor) and _is_one(fake) else None
            if found is None or not is_unbacked(found) or not found.node.expr.is_Symbol:
                continue
            held = self._of(fake)
            if held is not None:
                self._numbers.setdefault(found.node.expr, held)

    def number(self, fake: Any, of_inputs: bool) -> Any:
        """What a tensor holds, a number or a list, `of_inputs` where inputs tell it that held the same so far, too; None where it is not known. No guard."""
        held = None if self._lost else self._of(fake)
        if held is None or not (_is_same(held) or (of_inputs and self._is_steady(held))):
            return None
        try:
            value = held.now()
        except Exception:  # the program's own, which the run will tell
            return None
        known = value.dtype is fake.dtype and all(number == number for number in value.flatten().tolist())
        return value.tolist() if known else None

    def keep(self, fake: Any) -> bool:
        """Guard that a tensor holds at other calls what it holds now. False where that is not known any more: a call may have written to it."""
        held = self._of(fake)
        if held is None:
            return False
        for origin in held.origins:
            assert origin.value is not None
            alone = self._is_alone(origin)
            if held.over:
                self._guards.predicate(origin, alone, "{} is a number of its own")
                continue
            self._guards.predicate(origin, _holds(origin.value.item(), alone), f"{{}} holds {origin.value.item()}")
        return True

    def _is_alone(self, origin: Tensor) -> Callable[[Any], bool]:
        """What tells of a tensor in an origin's place that no write so far to other memory was one to it.

        One over memory of someone else, as NumPy's, may share that with a tensor of another storage.
        """
        fake: Any = origin.fake
        return _is_alone if self._written_to <= {fake.storage_key} else _is_alone_in_own_memory

    def _is_of_unknown(self, args: list[Any]) -> bool:
        """Whether nothing is known of what a tensor among arguments holds, as of nearly all: told by less than `_of` asks."""
        for arg in args:
            if type(arg) is FakeTensor and arg.storage_key not in self._held:
                variable = self._variables.get(address(arg))
                if variable is None or not _tells(variable, arg):
                    return True
        return False

    def tells_of(self, fake: torch.Tensor) -> bool:
        """Whether it is known of a tensor, by numbers alone, what it holds."""
        held = self._of(fake)
        return held is not None and _is_same(held)

    def _of(self, fake: Any, just: int = 0) -> Held | None:
        """What a tensor holds, or held before as many writes as were noted `just` now; None where that is not known."""
        if not isinstance(fake, torch.Tensor) or is_wrapped(fake) or not _is_short(fake):
            return None
        key = fake.storage_key  # type: ignore[attr-defined]
        if key in self._held:
            held, writes = self._held[key]
            if held is None or writes + just != _writes(fake):
                return None
            if not all(self._is_alone(origin)(origin.value) for origin in held.origins):
                return None
            return _part(held, _layout(fake))
        variable = self._variables.get(address(fake))
        if variable is None or not _tells(variable, fake) or _writes(fake) != just:
            return None
        if not self._is_alone(variable)(variable.value):
            return None
        at = address(variable)
        return self._note(fake, Held((variable,), Value(lambda given: given[at]), True, _layout(fake)))

    def _compute(self, target: Any, args: list[Any], kwargs: dict[str, Any], result: Any) -> None:
        """A call without effects has made a short tensor: of numbers alone, or of tensors of which is known what they hold."""
        if not (
            isinstance(target, str) or is_recorded_builtin(target) or getattr(operator, target.__name__, None) is target
        ):
            return
        if (target if isinstance(target, str) else target.__name__) in self._python_kernels:
            return  # what that does is done when the program runs
        known: dict[int, Held] = {}
        for leaf in _leaves(args, kwargs):
            if isinstance(leaf, torch.Tensor):
                held = self._of(leaf)
                if held is None or inside(leaf).storage_key == result.storage_key:
                    return  # of what is not known; or a view: what its storage holds is known or not
                known[address(leaf)] = held
        made_of, named_of = _mapped(lambda leaf: known.get(address(leaf)) or self._argument(leaf), args, kwargs)
        leaves = _leaves(made_of, named_of)
        if not all(isinstance(leaf, (Held, Term)) or type(leaf) in _PLAIN for leaf in leaves):
            return
        origins = {
            address(origin): origin for leaf in leaves if isinstance(leaf, (Held, Term)) for origin in leaf.origins
        }
        made_of, named_of = _mapped(
            lambda leaf: leaf.value if isinstance(leaf, (Held, Term)) else leaf, made_of, named_of
        )

        def compute(given: Given) -> torch.Tensor:
            real, named = _mapped(
                lambda leaf: leaf.of(given) if isinstance(leaf, (Value, Number)) else leaf, made_of, named_of
            )
            function = getattr(torch.Tensor, target) if isinstance(target, str) else target
            with torch.no_grad():
                found: torch.Tensor = function(*real, **named)
            return found.detach()

        if origins:
            if not _is_one(result):
                return
            over = all(_is_same(leaf) for leaf in leaves if isinstance(leaf, (Held, Term)))
            held = Held(tuple(origins.values()), Value(compute), False, _layout(result), over)
        else:
            made = _Made(compute, result.device, _layout(result))
            self._unmade.append(made)
            held = Held((), Value(made), True, made.layout)
        self._hold(result, held)

    def _hold(self, result: Any, held: Held) -> None:
        """A call has made what is known."""
        self.some_are_made = self.some_are_made or not held.origins
        self._note(result, held)
        if _is_one(result):
            self._results.append(result)

    @functools.cached_property
    def _python_kernels(self) -> Mapping[str, Any]:
        """Asked for once: the names that they are told by are many."""
        return python_kernels()

    def _note(self, fake: Any, held: Held | None) -> Held | None:
        self._held[fake.storage_key] = held, _writes(fake)
        return held

    def _argument(self, leaf: Any) -> Any:
        """What stands for an argument where it is computed again; anything else where that is not known."""
        if isinstance(leaf, torch.Tensor):
            return self._of(leaf) or leaf
        if not is_unbacked(leaf):
            return leaf
        symbols = sorted(leaf.node.expr.free_symbols, key=str)
        held = [self._numbers[symbol] for symbol in symbols if symbol in self._numbers]
        if len(held) < len(symbols):
            return leaf
        origins = tuple([origin for each in held for origin in each.origins])
        over = all(map(_is_same, held))
        return Term(origins, Number(_condition(leaf.node.expr, symbols), tuple([each.value for each in held])), over)

    def _write(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        if target in _WRITING:
            self._note(inside(args[0]), self._written(target, args, kwargs))
            return
        amount = self._amount(args[1]) if target in _ADDING and len(args) == 2 and set(kwargs) <= {"alpha"} else None
        alpha = kwargs.get("alpha", 1)
        if amount is None or type(alpha) not in _NUMBERS:
            self._lose(tree_leaves([args, kwargs]))
            return
        for target_tensor in tree_leaves(args[0]):
            self._note(inside(target_tensor), self._added(target_tensor, amount, alpha))

    def _written(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Held | None:
        """What a tensor holds that was written to; None where that, or what it held before, is not known.

        Of the latter but that nothing else has its memory is of use where all of it is written over: the guard tells of that, too.
        """
        fake, *others = args
        if not _is_short(fake) or is_wrapped(fake):
            return None
        known = fake.storage_key in self._held
        held = self._of(fake, 1) or (None if known else self._whole(fake))
        if held is None or held is not self._held[fake.storage_key][0]:  # what is written to a part is not to the rest
            return None
        made_of, named_of = _mapped(self._argument, others, kwargs)
        leaves = _leaves(made_of, named_of)
        if not all(isinstance(leaf, Held) or type(leaf) in _PLACED for leaf in leaves):
            return None
        origins = {
            address(origin): origin for leaf in (held, *leaves) if isinstance(leaf, Held) for origin in leaf.origins
        }
        before = held.value
        made_of, named_of = _mapped(lambda leaf: leaf.value if isinstance(leaf, Held) else leaf, made_of, named_of)

        def compute(given: Given) -> torch.Tensor:
            real, named = _mapped(lambda leaf: leaf.of(given) if isinstance(leaf, Value) else leaf, made_of, named_of)
            found = before.of(given).detach().clone()
            function = getattr(torch.Tensor, target) if isinstance(target, str) else target
            function(found, *real, **named)
            return found

        constant = all(_is_same(leaf) for leaf in leaves if isinstance(leaf, Held))
        over = constant and (held.over or target is not operator.setitem or (_is_one(fake) and _is_all(others[0])))
        return Held(tuple(origins.values()), Value(compute), False, held.layout, over)

    def _whole(self, alias: Any) -> Held | None:
        """What the tensor from outside held of which something has all the memory (`flag.data`), which was written to once."""
        for variable in self._variables.values():
            fake: Any = variable.fake
            if variable.value is None or type(fake) is not FakeTensor or fake.storage_key != alias.storage_key:
                continue
            return self._of(fake, 1) if _layout(fake) == _layout(alias) else None
        return None

    def _added(self, fake: Any, amount: Any, alpha: Any) -> Held | None:
        """What a tensor holds that a number was added to, of which what it held before is known."""
        held = self._of(fake, 1)
        if held is None or held is not self._held[fake.storage_key][0]:  # what is added to a part is not to the rest
            return None
        return _with_added(held, amount, alpha)

    def _amount(self, other: Any) -> Any:
        """The number that is added, the same at each call."""
        if type(other) in _NUMBERS:
            return other
        held = self._of(other) if isinstance(other, torch.Tensor) and _is_one(other) else None
        if held is None or held.origins:
            return None
        try:
            return held.now().item()
        except Exception:  # the program's own, which the run will tell
            return None

    def _lose(self, values: Iterable[Any]) -> None:
        for value in values:
            if isinstance(value, torch.Tensor):
                self._note(inside(value), None)


def _is_all(index: Any) -> bool:
    """Whether it is, of one element, that one."""
    return type(index) is int or index is Ellipsis or index == slice(None)


def _with_added(held: Held, amount: Any, alpha: Any) -> Held:
    value = held.value

    def compute(given: Given) -> torch.Tensor:
        return value.of(given).detach().clone().add_(amount, alpha=alpha)

    return Held(held.origins, Value(compute), held.counts, held.layout, held.over)


def _part(held: Held, layout: Layout) -> Held | None:
    """What a view holds of what is held; None where it is none of it, or of memory with gaps, or reads other numbers there."""
    if layout == held.layout:
        return held
    (size, stride, offset, numbers), (whole, steps, start, written) = layout, held.layout
    if numbers != written:
        return None
    reach = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    begin = offset - start
    dense = all(
        length == 1 or step == math.prod(whole[at + 1 :])
        for at, (length, step) in enumerate(zip(whole, steps, strict=True))
    )
    if 0 in size or not dense or not 0 <= begin <= begin + reach < math.prod(whole):
        return None

    value = held.value

    def compute(given: Given) -> torch.Tensor:
        found = value.of(given).contiguous()
        return found.as_strided(size, stride, found.storage_offset() + begin)

    return Held(held.origins, Value(compute), held.counts, layout, held.over)


def _holds(number: Any, alone: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def holds(tensor: Any) -> bool:
        return alone(tensor) and bool(tensor.item() == number)

    return holds


def _is_alone(tensor: Any) -> bool:
    """Whether it is one plain number that is no other tensor's, too."""
    return isinstance(tensor, torch.Tensor) and _is_one(tensor) and held_alone(tensor)


def _is_alone_in_own_memory(tensor: Any) -> bool:
    """The same, of a tensor whose memory is torch's alone, which it may make longer."""
    return _is_alone(tensor) and tensor.untyped_storage().resizable()


def _tells(variable: Tensor, fake: Any) -> bool:
    """Whether what comes from there is asked for what it holds: one plain number, without dimensions, or a vector that a module has (a flag, a bound)."""
    rank = fake.dim()
    if variable.value is None or variable.source is None or rank > 1:
        return False
    if rank:  # as those of nearly all layers are
        size = fake.size(0)
        if type(size) is not int or size != 1 or not is_module_owned(variable.source):
            return False
    return _is_one(fake)


def _is_one(tensor: torch.Tensor) -> bool:
    """Whether it is one plain number, whatever its dimensions."""
    return _is_short(tensor) and math.prod(tensor.shape) == 1


def _is_short(tensor: torch.Tensor) -> bool:
    """Whether it is a few plain numbers, in memory of known layout."""
    if tensor.is_meta or tensor.dtype.is_complex or tensor.layout is not torch.strided:
        return False
    size = tensor.shape
    if not _INT.issuperset(map(type, size)) or math.prod(size) > _MOST:
        return False
    return _INT.issuperset(map(type, (*tensor.stride(), tensor.storage_offset())))


def _writes(fake: Any) -> int:
    return int(fake.fake_mode.written.get(fake.storage_key, 0))


def _layout(tensor: torch.Tensor) -> Layout:
    offset: Any = tensor.storage_offset()
    return tuple(tensor.shape), tuple(tensor.stride()), offset, (tensor.dtype, tensor.is_neg())
