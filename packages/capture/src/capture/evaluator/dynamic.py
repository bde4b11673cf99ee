"""Numbers from outside as symbols: sizes, strides, ints and floats that vary, and the guards on them once the capture is done.

Flows in: inputs with their sources, and what earlier captures met there. Flows out: policies for fakes, symbolic numbers,
``SHAPE`` guards.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

from capture.guards import Guard, GuardKind, ShapePredicate, Size
from capture.history import History, Number, Place
from capture.sources import Item, Local, Source, is_module_owned
from capture.tensor_attributes import is_parameter
from capture.variables.numbers import is_written
from symshapes import DimMark, DimPolicy, FakeTensor, ShapeEnv, policy_of, print_expr

#: What torch says of a tensor, whatever its class has by these names: some give the sizes of what they hold packed.
_SIZE, _DIM, _STRIDE = torch.Tensor.size, torch.Tensor.dim, torch.Tensor.stride
_NAME = re.compile(r"[A-Za-z_]\w*")
_READS = {int: "value", float: "float"}
#: A flag turns once, and a few of its module's are read at one place (in a loop). What turns more often would be a capture for each of its combinations.
_TURNS = 4


class DynamicSizes:
    """The symbolic numbers of one capture.

    Those of marked dimensions (``symshapes.mark_dynamic``) whatever ``dynamic`` is: what is said of one size goes
    before what is said of all. With True every size of an input that is not a parameter's or buffer's, and every number
    among the arguments; with True and None what changed since an earlier capture in ``history``. Without
    ``symbolic_numbers`` only tensors have symbols.
    """

    def __init__(
        self, dynamic: bool | None, history: History, symbolic_numbers: bool, locate: Callable[[], str]
    ) -> None:
        self.dynamic = dynamic
        self._history = history
        self._symbolic_numbers = symbolic_numbers
        # Where sizes change there may be a 1 among them, which is to need no compile of its own.
        self._symbolic = DimPolicy.OPEN if history.is_open() else DimPolicy.DUCK
        self.env = ShapeEnv(locate=locate)
        #: Whether an operation takes no symbols.
        self.refused = False
        self.sizes: dict[str, Size] = {}
        self.strides: list[tuple[Size, Any]] = []
        self._names: dict[Source, str] = {}
        self._taken: set[str] = set()
        self._whole: set[str] = set()
        #: Whether a size changed that had changed before, and one that had not.
        self._changed_before = self._changed_now = False
        #: All numbers that were read, symbolic or not: what the next capture is compared with.
        self.met: dict[Place, Number] = {}
        #: Which numbers, besides those of tensors, are symbols.
        self.numbers: list[Place] = []
        #: By source, when conditions were made last: the numbers of the call at hand.
        self._now: dict[str, Number] = {}

    # Tensors

    def policy(self, value: torch.Tensor, source: Source) -> list[DimPolicy | DimMark] | None:
        """One policy a dimension, or None where all sizes are constants."""
        marks = policy_of(value)
        if not marks and is_parameter(value):
            return None
        sizes, rank = _SIZE(value), _DIM(value)
        varies = [self._size_changes((self.name(source), "size", dim, rank), n) for dim, n in enumerate(sizes)]
        asked = rank > 0 and self._history.is_constant((self.name(source), "size", 0, rank))
        whole = not asked and self._is_whole(value, source, any(varies))
        if whole:
            self._whole.add(self.name(source))
        # A 1 that never changed is the program's own (a mask for all heads), and what it knows of layouts.
        follow = [whole and (self.dynamic is True or size != 1) for size in sizes]
        kinds = [self._symbolic if any(each) else DimPolicy.STATIC for each in zip(varies, follow, strict=True)]
        policies = [marks.get(dim, kind) for dim, kind in enumerate(kinds)]
        return None if all(policy is DimPolicy.STATIC for policy in policies) else policies

    def _size_changes(self, place: Place, size: int) -> bool:
        changes = self._meet(place, size) and self.dynamic is not False
        before = self._history.changed(place)
        self._changed_before |= changes and before
        self._changed_now |= changes and not before
        return changes

    def _is_whole(self, value: torch.Tensor, source: Source, varies: bool) -> bool:
        """Whether all of a tensor's sizes are symbolic at once. Those of parameters and buffers seldom change."""
        owned = is_parameter(value) or is_module_owned(source)
        return not owned and (self.dynamic is True or (varies and self._history.spread))

    def spreads(self) -> bool:
        """Whether sizes change one after the other: what changed before was not all, so the next one is not to be waited for."""
        return self._changed_before and self._changed_now

    def alike(self, source: Source, rank: int) -> list[Hashable]:
        """For each dimension what other sizes must have in common with it to be the same symbol."""
        return [self._history.class_of((self.name(source), "size", dim, rank)) for dim in range(rank)]

    def symbolic_strides(self, value: torch.Tensor, source: Source) -> list[bool | DimPolicy]:
        """Which strides are symbolic: True for one that is unless it follows from sizes, a policy for one that is in any case.

        A tensor that follows its sizes at one call and does not at another (a cache made by a view, then by `cat`) is of
        any strides.
        """
        if self.dynamic is False or is_parameter(value):
            return []
        name, rank, step = self.name(source), _DIM(value), _STRIDE(value)
        varies = [self._meet((name, "stride", dim, rank), step[dim]) for dim in range(rank)]
        follows = _follows(_SIZE(value), step).items()
        loose = [self._meet((name, "follows", dim, rank), int(does)) for dim, does in follows]
        return [DimPolicy.DYNAMIC if changes and any(loose) else changes or name in self._whole for changes in varies]

    def is_steady(self, source: Source, held: Number) -> bool:
        """Whether a scalar tensor held the same at each capture so far."""
        return not self._meet((self.name(source), "holds"), held)

    def is_settled(self, source: Source, where: str, decided: bool) -> bool:
        """Whether what a scalar tensor holds seldom came to decide otherwise there, from one capture to the next."""
        place = self.name(source), "decides", where
        self.met[place] = decided
        return self._history.turns(place, decided) <= _TURNS

    def name(self, source: Source) -> str:
        """A source's name, and its alone: an argument and a global may be called the same."""
        name = self._names.get(source)
        if name is None:
            name, taken = source.name, self._taken
            if name in taken:
                name = f"{type(source.root).__name__.lower()} {name}"
            while name in taken:
                name += "'"
            self._names[source] = name
            taken.add(name)
        return name

    def note(self, fake: FakeTensor, source: Source) -> None:
        """Remember where the sizes of an input are read, and which strides follow from sizes."""
        for dim in range(fake.dim()):
            self.sizes[f"{self.name(source)}.size({dim})"] = Size(source, "size", dim)
            # One that is a constant by now may have been a symbol, of which there are guards.
            self.sizes[f"{self.name(source)}.stride({dim})"] = read = Size(source, "stride", dim)
            stride = fake.stride(dim)
            if isinstance(stride, torch.SymInt):
                self.strides.append((read, stride))

    def close(self) -> bool:
        """Give up serving sizes of 1 with others, in the next attempts, or any with others; False where this one did not."""
        if self.refused and not all(map(self._history.is_constant, self.met)):
            self._history.make_constant(self.met)
            return True
        if self.env.has_open:
            self._history.close()
        return self.env.has_open

    # Numbers

    def number(self, value: Number, source: Source) -> torch.SymInt | torch.SymFloat | None:
        """An int or float from outside as a symbol; None where it is a constant."""
        if self.dynamic is False:
            return None
        name = self.name(source)
        place = (name, type(value).__name__)
        changes = self._meet(place, value)
        whole = self.dynamic is True and _is_argument(source) and not self._history.is_constant(place)
        if not self._symbolic_numbers or not (changes or whole) or (isinstance(value, int) and not is_written(value)):
            return None
        try:
            if isinstance(value, float):
                made: Any = self.env.create_float(value, name)
            else:
                made = self.env.create_int(value, name)
        except ValueError:  # a number that no condition tells from others
            return None
        self.sizes[name] = Size(source, _READS[type(value)])
        self.numbers.append(place)
        return made if isinstance(made, (torch.SymInt, torch.SymFloat)) else None

    def _meet(self, place: Place, value: Number) -> bool:
        self.met[place] = value
        return self._history.changes(place, value)

    # Guards

    def guards(self) -> list[Guard]:
        """The conditions under which the capture is valid for other numbers, each natively checkable.

        Raises ``MarkError`` where they break what the user promised.
        """
        self.env.check_marks()
        return self._conditions()

    def varying(self) -> list[Guard]:
        """Of the conditions those on numbers that are no constants by now."""
        fixed = {each.source for each in self.env.specializations() if isinstance(each.value, int)}
        constants = {read for source, read in self.sizes.items() if source in fixed}
        return [guard for guard in self._conditions() if not constants.intersection(guard.expected.inputs)]

    def _conditions(self) -> list[Guard]:
        guards = self.env.produce_guard_code()
        sources, hints = self.env.sources, self.env.hints
        self._now = {sources[symbol]: hint for symbol, hint in hints.items() if symbol in sources}
        inputs = dict(zip(guards.parameters, guards.arguments, strict=True))
        found = [
            Guard(None, GuardKind.SHAPE, self._predicate(part.local, inputs, part.code, part.reason), part.user_line)
            for part in guards.parts
        ]
        symbols = {symbol: source for symbol, source in self.env.sources.items() if source in self.sizes}
        for read, stride in self.strides:
            if self.sizes.get(symbols.get(stride.node.expr, "")) == read:
                continue  # a symbol of its own
            # Facts learned since (two sizes are equal, one is constant) hold whenever the guards do.
            expr = self.env.simplify(stride.node.expr)
            names = {symbol: f"n{place}" for place, symbol in enumerate(symbols)}
            local = f"stride == {print_expr(expr, 'python', names=names)}"
            words = print_expr(expr, "python", names=symbols)
            sources = {name: symbols[symbol] for symbol, name in names.items()}
            predicate = self._predicate(local, sources, f"{read} == {words}", "as it was laid out", stride=read)
            found.append(Guard(None, GuardKind.SHAPE, predicate))
        return found

    def _predicate(self, local: str, inputs: dict[str, str], text: str, reason: str, **more: Size) -> ShapePredicate:
        used = set(_NAME.findall(local))
        reads = {name: self.sizes[source] for name, source in inputs.items() if name in used}
        reads |= more
        now = tuple(self._now.get(inputs.get(name, "")) for name in reads)
        names = _namespace(used - reads.keys())
        return ShapePredicate(tuple(reads.values()), tuple(reads), local, names, text, reason, now)


def _follows(size: Sequence[int], stride: Sequence[int]) -> dict[int, bool]:
    """For each dimension longer than 1 whether its stride is the product of what lies inside it."""
    order = sorted(range(len(size)), key=lambda d: (stride[d], size[d], -d))
    longer = [dim for dim in order if size[dim] > 1]
    # What stride a dimension of 1 has tells nothing, or of the next one.
    either = [_products(dims, size, stride) for dims in (order, longer)]
    return {dim: any(found[dim] for found in either) for dim in longer}


def _products(dims: Sequence[int], size: Sequence[int], stride: Sequence[int]) -> dict[int, bool]:
    found, within = {}, 1
    for dim in dims:
        found[dim] = stride[dim] == within
        within = stride[dim] * size[dim]
    return found


def _is_argument(source: Source) -> bool:
    """Whether a number is an argument of the frame, or in a container that is one."""
    return isinstance(source.root, Local) and all(isinstance(each, (Local, Item)) for each in source.path)


def _namespace(names: set[str]) -> dict[str, Any] | None:
    modules = {"math": math, "operator": operator}
    return {name: modules[name] for name in names if name in modules} or None
