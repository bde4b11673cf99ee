"""What every variable can be asked, and what it may ask of the interpreter.

A variable stands for one Python value of the program under evaluation. The defaults answer "unsupported", which becomes a graph break: a family overrides what it understands.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Hashable
from typing import Any, NoReturn, Protocol

import torch
from torch import fx

from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.sources import Source

#: Entries of a class whose representation tells the class's full name.
_TELLING = (types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType)

Args = list["Variable"]
Kwargs = dict[str, "Variable"]


def can_iterate(cls: type) -> bool:
    """Whether ``iter()`` takes objects of a class."""
    return hasattr(cls, "__iter__") or hasattr(cls, "__getitem__")


def shown_type(cls: type) -> str:
    """A class's name as the interpreter's messages have it: of those made in C it may hold their module's."""
    if cls.__module__ == "builtins":
        return cls.__name__
    for entry in vars(cls).values():
        if isinstance(entry, _TELLING) and entry.__objclass__ is cls:
            return repr(entry).removesuffix("' objects>").rpartition("'")[2]
    return cls.__name__


class Interpreter(Protocol):
    """What variables need of the interpreter that evaluates the program: nothing here is about a certain family of values.

    ``Any`` stands for values of families that are defined above this module.
    """

    # The evaluation so far

    #: Counts whatever may change the state of the evaluation beyond the root frame's stack.
    activity: int
    #: Counts what an evaluation leaves behind: changes of objects, and calls in the graph.
    changes: int
    #: Whether a body is evaluated only to see what it does.
    probing: bool
    #: What the program is told when it asks whether a compiler traces it, and whether it has asked.
    says_compiling: bool
    asked_compiling: bool
    #: Torch's settings where the frame begins, and how deep autocast is nested.
    entered_with: dict[str, Any]
    autocast_nesting: int
    #: Calls of functions that remember: to be made again, made before the frame ran, and of those told apart.
    remembered: list[Any]
    ran_ahead: set[Any]
    counted: set[Any]
    limits: dict[int, Any]
    #: By dictionary and name.
    globals_written: dict[tuple[int, str], tuple[dict[str, Any], Variable | None]]
    frames: list[Any]
    #: The variables of tensors, by the identity of their fakes.
    fakes: dict[int, Any]

    @property
    def frame(self) -> Any:
        """The innermost frame."""

    # Errors of the program

    def make_exception(self, cls: type, args: list[Variable]) -> Variable:
        """A new exception object."""

    def throw(self, cls: type, message: str) -> NoReturn:
        """Raise an exception in the program under evaluation."""

    def throw_value(self, cls: type, args: list[Variable]) -> NoReturn:
        """The same with any arguments."""

    def exception_of(self, args: Args) -> Variable:
        """The exception object that ``raise X`` or ``throw(X)`` means."""

    # Objects made and changed

    def fold(self, function: Any, args: list[Any], kwargs: dict[str, Any] | None = None) -> Any:
        """Compute for real; an exception becomes the program's."""

    def created(self, variable: Any) -> Any:
        """Note at which step a value was made."""

    def created_tuple(self, items: list[Variable]) -> Any:
        """A new tuple."""

    def created_dict(self, values: dict[str, Variable]) -> Any:
        """A new dictionary with these strings for keys."""

    def created_method(self, function: Variable, owner: Variable) -> Any:
        """A function bound to an object."""

    def mutated(self, variable: Variable) -> None:
        """Note a change of a tracked object."""

    # Real values and variables

    def wrap(self, value: Any, source: Source | None) -> Variable:
        """The variable of a real value read from ``source``; guards what it is. None: its identity is fixed."""

    def identity(self, variable: Any, source: Source | None) -> Any:
        """A variable of a known object, which ``source`` must go on to read."""

    def graph_input(self, value: torch.Tensor, source: Source) -> tuple[fx.Node, Any]:
        """A tensor from outside becomes an input of the graph: its node and its fake. Guards its metadata."""

    def cell_at(self, real: types.CellType, content: Source, source: Source) -> Any:
        """The variable of a real cell, which ``source`` reads, and ``content`` what it holds."""

    def fill_cell(self, cell: Any, real: types.CellType, content: Source) -> None:
        """Give a cell what the real one holds."""

    def understood(self, value: types.FunctionType) -> bool:
        """Whether a function is known as a whole: which one it is counts, not what it runs."""

    def known(self, value: Any) -> Variable:
        """A real object of fixed identity: no guard on which one it is."""

    def computed(self, value: Any) -> Variable:
        """An object that was just made for real, which nothing else can change."""

    def from_python(self, value: Any) -> Variable:
        """A value that was computed for real: fresh containers, literals, or an object of fixed identity."""

    def to_python(self, variable: Variable) -> Any:
        """The real value; raises ``NotConstant``."""

    def realize(self, variable: Variable) -> Variable:
        """The variable itself; an input not looked at yet installs its guards here."""

    def is_constant(self, variable: Variable) -> bool:
        """Whether the real value is known entirely."""

    def is_none(self, variable: Variable) -> bool:
        """Whether it is known to be None."""

    def referent(self, value: weakref.ref[Any], source: Source | None) -> Variable:
        """What a weak reference refers to: read through it, for nothing may keep that alive."""

    # Guards

    def guard(self, source: Source | None, kind: GuardKind, expected: Any = None) -> None:
        """Add a guard once; none on objects that were computed for this capture alone."""

    def type_guard(self, source: Source | None, cls: type) -> None:
        """An input is of exactly this class."""

    def hangs_from_bound(self, source: Source) -> bool:
        """Whether a source is read from a module that may be any one of its equals."""

    def guard_predicate(
        self, owner: Variable, check: Callable[[Any], object], text: str, subject: object = None
    ) -> None:
        """A Python check on an input; none on objects of fixed identity that only guards can see change."""

    def guard_distinct(self, first: Variable, *others: Variable) -> None:
        """Inputs that are different objects stay so, where no guard on their identity says it."""

    def guard_no_attribute(self, owner: Variable, name: str) -> None:
        """An input has no such attribute."""

    def guard_not_shadowed(self, owner: Any, name: str) -> None:
        """The instance's own dictionary does not hold ``name``."""

    def guard_dict_keys(self, owner: Any) -> None:
        """The instance's own dictionary has the names that it has."""

    def guard_empty(self, value: Any, owner: Source | None, name: str) -> bool:
        """Guard that a dictionary in an attribute is empty, if it is, without looking at it further."""

    def by_identity(self, variable: Variable) -> VarKey:
        """The key of an object that is hashed and compared as such: two of them stay two."""

    def reach(self, entry: Variable, table: Source, key: Any) -> None:
        """Note that the program read a dictionary's entry, which must be there even if its value never counts."""

    def reach_content(self, content: Variable) -> None:
        """The same of what a cell or a slot holds."""

    def note_identity(self, variable: Variable, value: Any) -> None:
        """Which object an input is counts."""

    def note_type(self, value: Any) -> None:
        """An object of fixed identity keeps its class."""

    def note_code(self, function: Any) -> None:
        """What a function runs stays."""

    def note_code_of(self, real: types.FunctionType) -> None:
        """The same for a function that is understood without being called."""

    def note_defaults(self, function: Any) -> None:
        """How many defaults a function has, and of which keyword-only parameters; their values are read one by one."""

    def note_signature(self, function: Any) -> None:
        """All that ``inspect.signature`` reads of a function, and of those that it wraps."""

    # Classes

    def class_entry(self, cls: type, name: str) -> tuple[Any, type]:
        """The raw class attribute and the class of the MRO that has it; ``MISSING`` if none does. Leaves a guard."""

    def may_change(self, cls: type) -> bool:
        """Whether any class along the MRO can change."""

    def own_entry(self, owner: type, name: str) -> Any:
        """What the class itself holds under a name, whatever the others of an MRO do."""

    def note_no_own_entry(self, owner: type, name: str) -> None:
        """The class itself holds nothing under a name."""

    def note_order(self, cls: type) -> None:
        """The classes along the MRO count: their order stays."""

    def note_unregistered(self, own: type, cls: type) -> None:
        """A class that is asked for by the rules of ``abc`` has not been registered."""

    def class_attribute(self, owner: type, name: str, value: Any) -> Variable:
        """A function or other object stored in a class."""

    def wrap_class_value(self, owner: type, name: str, raw: Any) -> Variable:
        """A plain value stored in a class, of which the look-up has noted which one it is."""

    def trusted_function(self, value: types.FunctionType) -> Variable:
        """A function that was found in an object of fixed identity."""

    # Attributes, globals and modules of the program

    def input_attribute(self, owner: Any, name: str, value: Any) -> Variable:
        """An entry of an input's dictionary or slots."""

    def attribute_source(self, owner: Variable, name: str) -> Source:
        """Where an attribute of an input is read."""

    def known_attribute_source(self, value: Any, name: str) -> Source:
        """The same of an object of fixed identity."""

    def module_source(self, module: types.ModuleType) -> Source:
        """Where a Python module is read."""

    def module_global(self, namespace: dict[str, Any], name: str) -> Variable:
        """A global that exists, as the program has it now."""

    def set_global(self, namespace: dict[str, Any], name: str, value: Variable | None) -> None:
        """Write a global; None deletes it."""

    def imported(self, name: str) -> Variable:
        """A module that is imported already."""

    # The graph

    def record(self, op: str, target: Any, args: Args, kwargs: Kwargs) -> Variable:
        """Add one call. ``op`` is ``"call_function"`` or ``"call_method"``; the result is a variable."""

    def graph_number(self, tensor: Any, name: str, args: list[Any], kwargs: dict[str, Any], value: Any) -> Variable:
        """A symbolic size, stride or count of a tensor: one node per number."""

    def graph_state_call(self, target: Any, args: Args) -> None:
        """A call that changes torch's modes: recorded in the graph and made for real, to be undone after tracing."""

    def note_offset(self, tensor: Any) -> None:
        """Where a tensor begins in its storage is asked for."""

    def note_places(self, *variables: Variable) -> None:
        """The program acts on these tensors' places in autograd's graph, or on those of tensors within."""

    # The language

    def call(self, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
        """``function(*args, **kwargs)``."""

    def call_function(self, function: Any, args: Args, kwargs: Kwargs) -> Variable:
        """A Python function: known as a whole, a torch operation, or inlined."""

    def resume_generator(self, frame: Any, sent: Variable | None, error: Any) -> tuple[bool, Variable]:
        """Continue a generator's frame, maybe with an exception; (whether it yielded, the value)."""

    def getattr(self, owner: Variable, name: str) -> Variable:
        """``owner.name``."""

    def unary(self, symbol: str, value: Variable) -> Variable:
        """``-value``, ``+value``, ``~value`` or ``abs(value)``."""

    def binary(self, symbol: str, left: Variable, right: Variable) -> Variable:
        """``left <symbol> right``."""

    def inplace(self, symbol: str, left: Variable, right: Variable) -> Variable:
        """``left <symbol> right`` with the symbol of an assignment, such as ``+=``; gives the new ``left``."""

    def compare(self, symbol: str, left: Variable, right: Variable) -> Variable:
        """``left <symbol> right`` with the symbol of a comparison."""

    def is_(self, left: Variable, right: Variable) -> bool:
        """``left is right``."""

    def equal(self, left: Variable, right: Variable) -> bool:
        """Identity or equality, as containers compare."""

    def truth(self, value: Variable) -> bool:
        """``bool(value)``."""

    def index(self, value: Variable) -> int:
        """A real integer, as ``operator.index`` gives."""

    def text(self, value: Variable, how: str = "str") -> Variable:
        """``str(value)`` or ``repr(value)``."""

    def format(self, value: Variable, spec: str) -> Variable:
        """``format(value, spec)``."""

    def iterate(self, value: Variable) -> Variable:
        """``iter(value)``."""

    def iterate_with(self, method: Variable) -> Variable:
        """What an ``__iter__`` gives."""

    def next_value(self, iterator: Variable) -> Variable:
        """``next(iterator)``."""

    def next_of_object(self, owner: Variable) -> Variable:
        """``__next__`` of a user's object; its ``StopIteration`` becomes the signal."""

    def stop_as_exception(self, action: Callable[[], Variable]) -> Variable:
        """Turn exhaustion into the program's ``StopIteration``."""

    def elements(self, value: Variable) -> list[Variable]:
        """All elements of an iterable, as ``list`` takes them."""

    def pairs(self, value: Variable) -> list[tuple[Variable, Variable]]:
        """Keys and values of a mapping, or of an iterable of pairs, as ``dict`` takes them."""

    def sort(self, items: list[Variable], key: Variable | None, reverse: Variable | None) -> list[Variable]:
        """Stable order by ``<`` on the keys."""


class VarKey:
    """A variable as dictionary key: hashed by identity of the value it stands for."""

    __slots__ = ("var",)

    def __init__(self, var: Variable) -> None:
        self.var = var

    def __hash__(self) -> int:
        return id(self.var)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VarKey) and other.var is self.var


class Variable:
    """``source`` says how to read the value again at run time; None for values made inside the frame.

    ``step`` is the root instruction count at which it was made.
    """

    source: Source | None = None
    step: int = -1

    def python_type(self) -> type:
        raise Unsupported(f"type of {self!r}")

    def as_python(self, m: Interpreter) -> Any:
        """The real Python value, if it is known entirely; raises ``NotConstant``."""
        raise NotConstant(self)

    def hash_key(self, m: Interpreter) -> Hashable:
        raise Unsupported(f"hash of {self!r}")

    def truth(self, m: Interpreter) -> bool:
        raise Unsupported(f"truth value of {self!r}")

    def attribute(self, m: Interpreter, name: str) -> Variable:
        raise Unsupported(f"attribute {name!r} of {self!r}")

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        raise Unsupported(f"setting attribute {name!r} of {self!r}")

    def delete_attribute(self, m: Interpreter, name: str) -> None:
        raise Unsupported(f"deleting attribute {name!r} of {self!r}")

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        raise Unsupported(f"call of {self!r}")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        return m.call(self.attribute(m, name), args, kwargs)

    def length(self, m: Interpreter) -> Variable:
        raise Unsupported(f"length of {self!r}")

    def iterate(self, m: Interpreter) -> Variable:
        raise Unsupported(f"iteration over {self!r}")

    def next(self, m: Interpreter) -> Variable:
        """Next element of an iterator; raises ``StopIter``."""
        raise Unsupported(f"next() of {self!r}")

    def item(self, m: Interpreter, key: Variable) -> Variable:
        raise Unsupported(f"subscript of {self!r}")

    def set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        raise Unsupported(f"item assignment to {self!r}")

    def delete_item(self, m: Interpreter, key: Variable) -> None:
        raise Unsupported(f"item deletion from {self!r}")

    def contains(self, m: Interpreter, value: Variable) -> bool:
        """``value in self`` by iteration, as Python does without ``__contains__``."""
        return any(m.equal(x, value) for x in m.elements(self))

    def realize(self, m: Interpreter) -> Variable:
        """The variable itself; an input not looked at yet installs its guards here."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class Null(Variable):
    """The interpreter's NULL on the value stack (or an unbound local saved there)."""


NULL = Null()


class Lazy(Variable):
    """An input value not looked at yet: no guard until it is."""

    def __init__(self, value: Any, source: Source) -> None:
        self.value = value
        self.source = source
        self.seen: Variable | None = None

    def realize(self, m: Interpreter) -> Variable:
        if self.seen is None:
            self.seen = m.wrap(self.value, self.source)
        return self.seen

    def __repr__(self) -> str:
        return f"<input {self.source.name if self.source else '?'}>"
