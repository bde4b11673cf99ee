"""What a capture assumed: `Guard(source, kind, expected)`, one fact each, with its wording.

The evaluator collects these; `tree` merges them; `program` turns them into a program for the native checker.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field
from typing import Any

import torch

from capture import _native
from capture._torch import without_functions
from capture.labels import Told, label_of, written
from capture.records import Record, record
from capture.settings import SETTINGS
from capture.sources import FrameValues, Source
from capture.tensor_attributes import device_of, dtype_of, layout_of, requires_grad
from capture.tensor_readers import tensor_keys


class GuardKind(enum.Enum):
    """The facts a guard can state; beside each, what `expected` holds."""

    TYPE = "type"  # a type: the value's type is it exactly
    ID = "id"  # an object: the value is that object
    BOUND = "bound"  # a class: any module of which all other facts hold; which one it is stays while they are not asked again
    EQUALS = "equals"  # a constant: the same type and value, floats bit for bit
    TENSOR = "tensor"  # a TensorMeta
    LEN = "len"  # an int: len() of a list, tuple, dict, set or string
    DICT_KEYS = "dict_keys"  # a tuple: the keys in order
    HAS_KEY = "has_key"  # a key that the dict holds
    NO_KEY = "no_key"  # a key that the dict does not hold
    NO_KEYS = "no_keys"  # a tuple of names that the dict does not hold
    EMPTY_AT = "empty_at"  # a tuple of names: under each the dict holds an empty dict
    HAS_ATTR = "has_attr"  # an attribute's name
    NO_ATTR = "no_attr"  # an attribute's name
    NO_CLASS_ENTRY = "no_class_entry"  # a name that no class of the class's MRO holds
    READABLE = "readable"  # nothing: there is a value to read
    EMPTY_CELL = "empty_cell"  # nothing: the cell holds none
    SAME_OBJECT = "same_object"  # another Source that gives the same object
    DISTINCT = "distinct"  # a tuple of Sources: with `source`, no two give the same object
    GRAD_MODE = "grad_mode"  # a bool; no source
    GLOBAL_STATE = "global_state"  # a GlobalState; no source
    SHAPE = "shape"  # a ShapePredicate; no source
    CALLABLE = "callable"  # a Predicate on the value
    ANSWER = "answer"  # (function, arguments, result): what it returns when called; no source

    # By identity, as they are compared: an enumeration's own is a call for each look-up in a table.
    __hash__ = object.__hash__


@record()
class TensorMeta(Record):
    """A tensor's metadata. A None among sizes or strides is a dimension that may vary.

    `keys` is its dispatch key set, where that can be read: it tells conjugate, negative, inference, sparse and
    wrapped tensors apart. None leaves only the conjugate and negative bits checked, both expected off.
    """

    python_type: type
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    requires_grad: bool
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None
    keys: int | None = None

    @staticmethod
    def of(
        tensor: torch.Tensor,
        *,
        sizes: tuple[int | None, ...] | None = None,
        strides: tuple[int | None, ...] | None = None,
    ) -> TensorMeta:
        """What to expect of tensors like this real one; `sizes` and `strides` replace its own where given."""
        with without_functions():  # the program is not to see that it is looked at
            layout = layout_of(tensor)
            own = tuple(torch.Tensor.stride(tensor)) if layout == torch.strided else None
            return TensorMeta(
                type(tensor),
                dtype_of(tensor),
                device_of(tensor),
                layout,
                requires_grad(tensor),
                tuple(torch.Tensor.size(tensor)) if sizes is None else sizes,
                own if strides is None else strides,
                tensor_keys(tensor),
            )

    def changes(self, name: str, value: object) -> Iterator[str]:
        """What a value has in place of what is expected; strides where nothing else is to be said."""
        if not isinstance(value, torch.Tensor) or type(value) is not self.python_type:
            yield f"type({name}) was {self.python_type.__name__}, is {type(value).__name__}"
            return
        now = TensorMeta.of(value)
        for what in ("dtype", "device", "layout", "requires_grad"):
            if getattr(self, what) != getattr(now, what):
                yield f"{name}.{what} was {getattr(self, what)}, is {getattr(now, what)}"
        if len(self.sizes) != len(now.sizes):
            yield f"{name}.dim() was {len(self.sizes)}, is {len(now.sizes)}"
            return
        sizes = list(_differences(f"{name}.size", self.sizes, now.sizes))
        yield from sizes or _differences(f"{name}.stride", self.strides or (), now.strides or ())

    def __str__(self) -> str:
        what = f"{self.python_type.__name__} {self.dtype} {self.device}"
        return f"{what} {_laid_out(self.sizes, self.strides)}{' requires_grad' if self.requires_grad else ''}"


@functools.lru_cache(maxsize=512)
def _laid_out(sizes: tuple[int | None, ...], strides: tuple[int | None, ...] | None) -> str:
    """Sizes and strides in words; parameters of a model's layers have few of them."""

    def dims(values: tuple[int | None, ...]) -> str:
        return "(" + ", ".join("*" if v is None else str(v) for v in values) + ")"

    return f"sizes={dims(sizes)}" + ("" if strides is None else f" strides={dims(strides)}")


def _differences(name: str, expected: Sequence[int | None], found: Sequence[int | None]) -> Iterator[str]:
    for dim, (was, now) in enumerate(zip(expected, found, strict=False)):
        if was is not None and was != now:
            yield f"{name}({dim}) was {was}, is {now}"


@record()
class GlobalState(Record):
    """A snapshot of the settings outside of tensors that change what torch functions do: name and value pairs.

    `native` is the same as `_native.read_state` gives it, as far as it goes.
    """

    values: tuple[tuple[str, Any], ...]
    native: tuple[int, ...] = ()

    @staticmethod
    def now() -> GlobalState:
        """The settings in force. To be called before a capture enters modes of its own."""
        values = tuple((name, setting.read()) for name, setting in SETTINGS.items() if not setting.apart)
        return GlobalState(values, _native.read_state())

    def that_count(self, read: Collection[str] = ()) -> GlobalState:
        """Those that mean something to a graph: to any, and of those that only some operations read, what its own have ``read``."""
        kept = tuple(each for each in self.values if each[0] in read or not SETTINGS[each[0]].read_by_some)
        return GlobalState(kept, self.native)

    def differences(self, other: GlobalState) -> list[str]:
        """What changed, in words, from this snapshot to the other."""
        theirs = dict(other.values)
        return [f"{name}: {mine} -> {theirs[name]}" for name, mine in self.values if theirs[name] != mine]

    def __str__(self) -> str:
        values = dict(self.values)
        told = [f"{name}={value}" for name, value in values.items() if value and SETTINGS[name].matters(values)]
        return ", ".join([*told, "all else off"])


@record()
class Size(Record):
    """A number that a shape predicate reads from a source: `what` is "size", "stride", "offset", "value" or "float".

    `dim` counts for "size" and "stride"; "value" is a Python int itself, "float" a Python float.
    """

    source: Source
    what: str = "size"
    dim: int = 0

    def __str__(self) -> str:
        if self.what in ("value", "float"):
            return self.source.name
        if self.what == "offset":
            return f"{self.source.name}.storage_offset()"
        return f"{self.source.name}.{self.what}({self.dim})"


@record()
class ShapePredicate(Record):
    """A condition on sizes: Python source of one expression over `names`, which stand for `inputs` in order.

    Integers, + - * // %, comparisons (chained too), and/or/not, min and max are checked natively; any other
    expression, one of floats, and one that comes to more than 64 bits of `now`, the inputs of the call at hand, is compiled
    as Python, with `namespace` as its globals. `reason` is why it is there, where no line asked.
    """

    inputs: tuple[Size, ...]
    names: tuple[str, ...]
    code: str
    namespace: Any = None
    text: str = ""
    reason: str = ""
    now: tuple[Any, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return self.text or self.code


@record()
class Predicate(Record):
    """A Python function of the value, for what no other kind says. A true result lets the guard pass.

    Predicates of one text and subject, the object besides the value that it is about, are the same.
    """

    check: Callable[[Any], object] = field(compare=False)
    text: str
    subject: Any = None


@record(eq=False)
class Guard(Record):
    """One fact that must hold for a capture to be used again. `user_line` is where it was assumed."""

    source: Source | None
    kind: GuardKind
    expected: Any = None
    user_line: str = ""

    def let_go(self, source: Source | None, expected: Any) -> None:
        """Have these, of which the same is told, in the place of what it was made of: its program checks it."""
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "expected", expected)

    @property
    def text(self) -> str:
        """The fact in words, of Python where possible."""
        name = "" if self.source is None else self.source.name
        return _WORDS[self.kind](name, self.expected)

    def now(self, values: FrameValues) -> str:
        """What a frame with such values has instead, in words as `text` is."""
        try:
            if self.source is None:
                return _STATE_NOW[self.kind](self.expected, values)
            return _now(self.kind, self.source.read(values))
        except Exception as error:  # sources are the program's objects: reading them may fail in any way
            return f"{type(error).__name__} on reading it"

    @property
    def why(self) -> str:
        """The user's line, or what else is to be said of where it comes from; may be empty."""
        return self.user_line or (self.expected.reason if self.kind is GuardKind.SHAPE else "")

    @property
    def condition(self) -> str:
        """The fact and where it comes from, as a sentence: `x.size(0) % 8 == 0, from model.py:31 in forward`."""
        where = f"from {self.user_line}" if self.user_line else self.why
        return f"{self.text}, {where}" if where else self.text

    def failure(self, values: FrameValues) -> str:
        """What was assumed of a frame with such values and is not so, in words: `x.size(0) was 3, is 5`."""
        if self.kind is GuardKind.TENSOR and self.source is not None:
            try:
                changes = list(self.expected.changes(self.source.name, self.source.read(values)))
            except Exception:  # sources are the program's objects: reading them may fail in any way
                changes = []
            if changes:
                return ", ".join(changes)
        return f"{self.text}, now {self.now(values)}"

    def __str__(self) -> str:
        text = _WORDS[self.kind]("" if self.source is None else self.source.name, self.expected)
        why = self.user_line or self.why
        return f"{text}  # {why}" if why else text


def _now(kind: GuardKind, value: Any) -> str:
    if kind in (GuardKind.TYPE, GuardKind.HAS_ATTR, GuardKind.NO_ATTR):
        return brief(type(value))
    if kind is GuardKind.TENSOR and isinstance(value, torch.Tensor):
        return str(TensorMeta.of(value))
    if kind in (GuardKind.LEN, GuardKind.DICT_KEYS):
        return str(len(value)) if kind is GuardKind.LEN else f"[{', '.join(map(brief, value))}]"
    return "another object" if kind is GuardKind.ID else brief(value)


_STATE_NOW: dict[GuardKind, Callable[[Any, FrameValues], str]] = {
    GuardKind.GRAD_MODE: lambda expected, values: str(torch.is_grad_enabled()),
    GuardKind.GLOBAL_STATE: lambda expected, values: ", ".join(expected.differences(GlobalState.now())),
    GuardKind.ANSWER: lambda expected, values: str(expected[0](*expected[1])),
    GuardKind.SHAPE: lambda expected, values: ", ".join(f"{size} = {_size(size, values)}" for size in expected.inputs),
}


def _size(size: Size, values: FrameValues) -> Any:
    value = size.source.read(values)
    if size.what in ("value", "float"):
        return value
    return value.storage_offset() if size.what == "offset" else getattr(value, size.what)(size.dim)


#: Types of what is told as it is written.
WRITTEN = frozenset({int, float, str, bytes, bool, type(None)})


def brief(value: Any) -> str:
    """What is said of a value that a guard expects."""
    if type(value) in WRITTEN:
        return written(value)[:80]
    if type(value) is Told:
        return value.words
    return label_of(value) or ("Ellipsis" if value is ... else f"{label_of(type(value))} object")


#: Of so many objects that are to differ the names are told.
_MANY = 8

_WORDS: dict[GuardKind, Callable[[str, Any], str]] = {
    GuardKind.TYPE: lambda name, expected: f"type({name}) is {brief(expected)}",
    GuardKind.ID: lambda name, expected: f"{name} is the same {brief(expected)}",
    GuardKind.BOUND: lambda name, expected: f"{name} is bound to a {brief(expected)}",
    GuardKind.EQUALS: lambda name, expected: (
        f"{name} == {written(expected, str)[:200]!s}"
        if not isinstance(expected, str)
        else f"{name} == {expected[:200]!r}"
    ),
    GuardKind.TENSOR: lambda name, expected: f"{name} is {expected}",
    GuardKind.LEN: lambda name, expected: f"len({name}) == {expected}",
    GuardKind.DICT_KEYS: lambda name, expected: f"list({name}) == [{', '.join(map(brief, expected))}]",
    GuardKind.HAS_KEY: lambda name, expected: f"{brief(expected)} in {name}",
    GuardKind.NO_KEY: lambda name, expected: f"{brief(expected)} not in {name}",
    GuardKind.NO_KEYS: lambda name, expected: f"{', '.join(map(brief, expected))} not in {name}",
    GuardKind.EMPTY_AT: lambda name, expected: f"nothing is in {name}[...] of {', '.join(map(brief, expected))}",
    GuardKind.HAS_ATTR: lambda name, expected: f"hasattr({name}, {expected!r})",
    GuardKind.NO_ATTR: lambda name, expected: f"not hasattr({name}, {expected!r})",
    GuardKind.NO_CLASS_ENTRY: lambda name, expected: f"no class of {name}'s MRO holds {expected!r}",
    GuardKind.READABLE: lambda name, expected: f"{name} can be read",
    GuardKind.EMPTY_CELL: lambda name, expected: f"{name} is empty",
    GuardKind.SAME_OBJECT: lambda name, expected: f"{name} is {expected.name}",
    GuardKind.DISTINCT: lambda name, expected: (
        ", ".join([name, *(each.name for each in expected[:_MANY])])
        + (f" and {len(expected) - _MANY} more" if len(expected) > _MANY else "")
        + " are different objects"
    ),
    GuardKind.GRAD_MODE: lambda name, expected: f"torch.is_grad_enabled() is {expected}",
    GuardKind.GLOBAL_STATE: lambda name, expected: f"global state: {expected}",
    GuardKind.SHAPE: lambda name, expected: str(expected),
    GuardKind.ANSWER: lambda name, expected: f"{brief(expected[0])}{expected[1]!r} == {expected[2]!r}",
    GuardKind.CALLABLE: lambda name, expected: expected.text.replace("{}", name),
}
