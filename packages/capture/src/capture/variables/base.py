"""What every variable can be asked, and what it may ask of the interpreter.

A variable stands for one Python value of the program under evaluation. The defaults answer "unsupported", which becomes a graph break: a family overrides what it understands.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol

import torch
from torch import fx

from capture.errors import NotConstant, Unsupported
from capture.sources import Source

from .assumptions import Classes, Guards, State
from .autograd_history import AutogradHistory
from .reconstruction import CannotReconstruct, Emitter

Args = list["Variable"]
Kwargs = dict[str, "Variable"]


class Identity(Protocol):
    """Which inputs are one object, and which are not."""

    #: Whether ``id`` of an object is an element or a key of something.
    has_ids: bool

    def key(self, variable: Variable) -> Hashable:
        """The key of an object that is hashed and compared as such: two of them stay two."""

    def distinct(self, first: Variable, *others: Variable) -> None:
        """Inputs that are different objects stay so, where no guard on their identity says it."""

    def hangs_from_bound(self, source: Source) -> bool:
        """Whether a source is read from a module that may be any one of its equals."""


class Effects(Protocol):
    """What the program makes and changes, and what the generated code must do again."""

    #: Counts whatever may change the state of the evaluation beyond the root frame's stack.
    activity: int
    #: Counts what an evaluation leaves behind: changes of objects, and calls in the graph.
    changes: int
    #: Counts changes of tracked objects alone.
    mutations: int
    #: Counts changes that a ``__hash__`` may tell of.
    rewritten: int
    #: Calls of functions that remember: to be made again, made before the frame ran, and of those told apart.
    remembered: list[Any]
    #: Calls that tell the outside something, before anything is changed.
    announced: list[Any]
    #: The context variables that were met; the contexts that the frame has entered, each in the one before.
    context_variables: list[Any]
    contexts: list[Any]
    #: The objects that these calls may change, by address.
    listeners: dict[int, Any]
    ran_ahead: set[Any]
    counted: set[Any]
    limits: dict[int, Any]
    #: What code reads that runs after the frame did.
    later: Any

    def created(self, variable: Any) -> Any:
        """Note at which step a value was made."""

    def mutated(self, variable: Variable) -> None:
        """Note a change of a tracked object."""

    def has_changed(self, variable: Variable) -> bool:
        """Whether a change of it was noted."""

    def has_changed_input(self, variable: Variable) -> bool:
        """Whether it is from outside the frame, where a change of it is made after the graph."""

    def has_changed_inputs(self) -> bool:
        """Whether anything from outside the frame was changed."""

    def has_rewritten_inputs(self) -> bool:
        """Whether anything from outside the frame was changed that a ``__hash__`` may tell of."""

    def let_go(self) -> Iterable[tuple[int, Any]]:
        """The objects that were held from outside where the frame began, and by that are not any more; each with a step before that."""

    def apart(self) -> AbstractContextManager[Callable[[], bool]]:
        """Meanwhile changes are noted apart; gives what tells whether anything was changed that was there before."""


class SymbolicRaise(Exception):
    """A user exception raised while evaluating; ``exception`` is the variable of the exception object."""

    def __init__(self, exception: Variable) -> None:
        super().__init__(repr(exception))
        self.exception = exception


class Errors(Protocol):
    """Exceptions of the program under evaluation."""

    @property
    def handled(self) -> Variable | None:
        """The exception that is being handled; None where only the frame's callers may handle one."""

    def current(self, m: Interpreter) -> Variable | None:
        """The exception that is being handled, by whomever; guards that nothing is outside the frame either."""

    def handling(self, raised: Variable) -> Variable | None:
        """What an exception that is raised now has for its context; None: what is handled where the frame begins."""

    def current_outside(self, m: Interpreter) -> bool:
        """Whether the frame's callers are handling one; guarded if not."""

    def throw(self, cls: type, message: str) -> NoReturn:
        """Raise an exception in the program under evaluation: the signal ``SymbolicRaise``."""

    def throw_value(self, cls: type, args: list[Variable]) -> NoReturn:
        """The same with any arguments."""

    def make_exception(self, cls: type, args: list[Variable]) -> Variable:
        """A new exception object."""


class Globals(Protocol):
    """Globals of the program's modules."""

    #: By dictionary and name; None for a deleted one.
    written: dict[tuple[int, str], tuple[dict[str, Any], Variable | None]]

    def read(self, namespace: dict[str, Any], name: str) -> Variable:
        """A global that exists, as the program has it now."""

    def write(self, namespace: dict[str, Any], name: str, value: Variable | None) -> None:
        """Write a global; None deletes it."""

    def imported(self, name: str) -> Variable:
        """A module that is imported already."""


class Builder(Protocol):
    """Between real values and variables."""

    def wrap(self, value: Any, source: Source | None) -> Variable:
        """The variable of a real value read from ``source``; guards what it is. None: its identity is fixed."""

    def stands_for(self, value: Any, variable: Variable) -> None:
        """A real object, which nobody else has, is what a variable is looked up by."""

    def read_from(self, value: Any, source: Source) -> None:
        """Where an object is read from, which is known as part of another: its identity is not fixed."""

    def met(self, value: Any) -> Variable | None:
        """The variable of a real object that was looked at already."""

    def outside(self, variable: Variable) -> Any:
        """The real object behind an input that was looked at; None for any other."""

    def identified(self, variable: Any, source: Source | None) -> Any:
        """A variable of a known object, which ``source`` must go on to read."""

    def known(self, value: Any) -> Variable:
        """A real object of fixed identity: no guard on which one it is."""

    def computed(self, value: Any) -> Variable:
        """An object that was just made for real, which nothing else can change."""

    def from_python(self, value: Any) -> Variable:
        """A value that was computed for real: fresh containers, literals, or an object of fixed identity."""

    def to_python(self, variable: Variable) -> Any:
        """The real value; raises ``NotConstant``."""

    def is_constant(self, variable: Variable) -> bool:
        """Whether the real value is known entirely."""

    def is_none(self, variable: Variable) -> bool:
        """Whether it is known to be None."""

    def fold(self, function: Any, args: list[Any], kwargs: dict[str, Any] | None = None) -> Any:
        """Compute for real; an exception becomes the program's."""

    def made_text(self, text: str) -> str:
        """The same text, which was made just now: a run makes another, which is equal and not the same."""

    def is_made_text(self, value: object) -> bool:
        """Whether a value is a text that was made so, or by ``fold``."""

    def new_tuple(self, items: list[Variable]) -> Any:
        """A new tuple."""

    def new_dict(self, values: dict[str, Variable]) -> Any:
        """A new dictionary with these strings for keys."""

    def new_method(self, function: Variable, owner: Variable) -> Any:
        """A function bound to an object."""

    def cell_at(self, real: types.CellType, content: Source, source: Source) -> Any:
        """The variable of a real cell, which ``source`` reads, and ``content`` what it holds."""

    def fill_cell(self, cell: Any, real: types.CellType, content: Source) -> None:
        """Give a cell what the real one holds."""

    def referent(self, value: weakref.ref[Any], source: Source | None) -> Variable:
        """What a weak reference refers to: read through it, for nothing may keep that alive."""

    def input_attribute(self, owner: Any, name: str, value: Any) -> Variable:
        """An entry of an input's dictionary or slots."""

    def class_attribute(self, value: Any) -> Variable:
        """A function or other object stored in a class."""

    def class_value(self, owner: type, name: str, raw: Any) -> Variable:
        """A plain value stored in a class, of which the look-up has noted which one it is."""

    def is_empty(self, value: Any, source: Source) -> bool:
        """Guard that a dictionary in an attribute is empty, if it is, without looking at it further."""


class Recorder(Protocol):
    """The graph, and torch's state as the calls in it leave it."""

    #: Torch's settings where the frame begins, and how deep autocast is nested.
    entered_with: dict[str, Any]
    autocast_nesting: int
    #: The variables of tensors, by the identity of their fakes.
    fakes: dict[int, Any]
    #: The graph being built, and what its fakes run in.
    graph: Any
    fake_mode: Any

    @property
    def acts(self) -> bool:
        """Whether a call in the graph does more than give results, as drawing random numbers."""

    #: What the program did to autograd's graph.
    autograd: AutogradHistory
    #: Counts the program's questions whether gradients are computed.
    asked_grad: int

    def record(self, op: str, target: Any, args: Args, kwargs: Kwargs) -> Variable:
        """Add one call. ``op`` is ``"call_function"`` or ``"call_method"``; the result is a variable."""

    def input(self, value: torch.Tensor, source: Source) -> tuple[fx.Node, Any]:
        """A tensor from outside becomes an input of the graph: its node and its fake. Guards its metadata."""

    def number_input(self, value: int | float, source: Source) -> Variable | None:
        """A number from outside that is not the same each time becomes an input of the graph; None for one that is."""

    def number(self, tensor: Any, name: str, args: list[Any], kwargs: dict[str, Any], value: Any) -> Variable:
        """A symbolic size, stride or count of a tensor: one node per number."""

    def told(self, tensor: Any) -> Any:
        """The number that a tensor holds, guarded to stay so, where that is to be known; None where it is not."""

    def decide(self, condition: Any) -> bool | None:
        """What a condition on numbers found in data is, if that can be guarded; None where only the run can tell."""

    def state_call(self, target: Any, args: Args) -> None:
        """A call that changes torch's modes: recorded in the graph and made for real, to be undone after tracing."""

    #: Torch's switches that the program has set.
    switches: Any

    def switch(self, setter: Any, args: tuple[Any, ...], value: Any) -> None:
        """The program sets one of torch's switches, as the graph will; raises what the setter raises."""

    def note_offset(self, tensor: Any) -> None:
        """Where a tensor begins in its storage is asked for."""

    def note_places(self, *variables: Variable) -> None:
        """The program acts on these tensors' places in autograd's graph, or on those of tensors within."""


class Subgraphs(Protocol):
    """Control flow that the graph holds, as operations over graphs of their own."""

    def conditional(
        self, condition: Any, branches: Sequence[Callable[[], Variable]], operands: Sequence[Any]
    ) -> Variable:
        """What the first branch gives where the condition, a tensor, holds, else the second; `operands` always get a gradient."""

    def loop(
        self,
        condition: Callable[[list[Variable]], Variable],
        body: Callable[[list[Variable]], Variable],
        carried: Sequence[Any],
    ) -> Variable:
        """The body's values, beginning with `carried`, as soon as the condition does not hold of them."""

    def scan(
        self,
        step: Callable[[list[Variable]], Variable],
        carried: Sequence[Any],
        over: Sequence[Any],
        operands: Sequence[Any],
    ) -> list[Variable]:
        """What a step gives of what is carried and a slice of each of `over`: the last values carried, the rest of all steps."""

    def checkpointed(
        self, function: Callable[[], Variable], saves: Callable[..., bool] | None
    ) -> tuple[Variable, list[fx.Node]]:
        """What a function gives, and its calls, marked as a checkpoint that `saves` some values. It must do nothing that counts twice."""

    def associative_scan(self, combine: Callable[[list[Variable]], Variable], over: Sequence[Any]) -> list[Variable]:
        """What the function makes of all slices of `over` up to each, of two of each at a time."""


class CustomGradients(Protocol):
    """Backwards and hooks of the program in the graph."""

    def function(
        self,
        outputs: Sequence[Any],
        inputs: Sequence[Any],
        backward: Callable[[list[Variable]], tuple[Variable, Sequence[int]]],
        *,
        saved: Collection[Any],
        dirty: Collection[int],
        apart: Collection[int],
        once: bool,
        plain: Callable[[list[fx.Node]], Any],
    ) -> list[Variable]:
        """The outputs, connected to the inputs. `backward` makes of gradients a tuple of those of inputs, and says of which.

        `plain` gives it as it is (a `PlainBackward`), and adds to the nodes that are given what that needs of the graph.
        """

    def hook(self, tensor: Any, function: Callable[[list[Variable]], Variable]) -> fx.Node | None:
        """Have a hook called with each gradient of a tensor: the call in the graph; None for one that changes nothing."""

    def replace(self, tensor: Any, gradient: Any) -> fx.Node:
        """The same of a hook that gives this gradient."""

    def unhook(self, node: fx.Node) -> None:
        """Take it away again."""


class Levels(Protocol):
    """Levels of function transforms (vmap, grad, jvp)."""

    #: Whether the program's saved-tensor hooks are in force, which an evaluation does not see.
    under_hooks: bool

    @property
    def inside(self) -> bool:
        """Whether any level is entered: the graph cannot end here."""

    @property
    def on_symbols(self) -> AbstractContextManager[Any]:
        """What operations run in: within levels, where sizes are symbols, in what takes them."""

    def enter(self, function: Callable[..., int], args: Args) -> Variable:
        """Enter a level; the number that it has."""

    def leave(self, function: Callable[..., int]) -> Variable:
        """Leave the innermost level."""

    def set(self, function: Callable[..., Any], args: Args) -> None:
        """Set what holds within levels."""

    def level(self, number: Variable) -> Variable:
        """A level that is entered, as an argument of an operation."""


class FunctionModes(Protocol):
    """Torch-function modes that the program has entered."""

    @property
    def count(self) -> int:
        """How many are in force: the graph cannot end here, unless there are none."""

    def enter(self, mode: Variable) -> None:
        """A mode is in force from here on."""

    def enter_device(self, device: torch.device) -> None:
        """Tensors are made on a device from here on."""

    def leave(self) -> Variable:
        """The innermost one is in force no more."""

    def at(self, place: int) -> Variable:
        """One of those entered, the outermost at 0."""

    def refuse(self, what: str) -> None:
        """Raise ``Unsupported`` for what a mode would be asked about, were one in force."""

    def answer(self, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Variable | None:
        """What the innermost mode makes of a call; None where there is none, or torch does not ask it."""


class Calls(Protocol):
    """Calls of functions, and the frames of their bodies."""

    def call(self, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
        """``function(*args, **kwargs)``."""

    def call_from(
        self,
        caller: Any,
        function: Variable,
        args: Args,
        kwargs: Kwargs,
        keeping: Variable | None = None,
        handing: tuple[type[Variable], ...] = (),
    ) -> Variable:
        """The same for an operation of a frame that only pushes what it gives, or ``keeping``: the graph may break within.

        Calls of all but ``handing`` hold the arguments until they return.
        """

    def class_body(self, function: Any, *, once: bool) -> dict[str, Variable]:
        """Evaluate the function of a class statement; what it puts into the class, in order; each name ``once``, or it is refused."""

    def call_function(self, function: Any, args: Args, kwargs: Kwargs) -> Variable:
        """A Python function: known as a whole, a torch operation, or inlined."""

    def resume_generator(self, frame: Any, sent: Variable | None, error: Any) -> tuple[bool, Variable]:
        """Continue a generator's frame, maybe with an exception; (whether it yielded, the value)."""

    def delegate_of(self, frame: Any) -> Variable | None:
        """What a suspended generator's frame waits for in a ``yield from`` or ``await``; None if it waits in neither."""

    def end_delegation(self, frame: Any, value: Variable) -> None:
        """Go on after a ``yield from`` or ``await`` that a frame is suspended in, as if it had come to this value."""

    def understood(self, value: types.FunctionType) -> bool:
        """Whether a function is known as a whole: which one it is counts, not what it runs."""

    def exception_of(self, what: Variable, refusal: str) -> Variable:
        """The exception object that ``raise X`` means; ``refusal`` begins what is said of anything else."""

    def thrown(self, args: Args) -> Variable:
        """The exception object that ``throw(X)`` means, or ``throw(class, value, traceback)``."""


class Operators(Protocol):
    """What Python's operators and conversions come to."""

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

    def answer(self, found: Variable, kind: type, method: str) -> Variable:
        """What one of the program's special methods gave, where Python insists on a `kind`. Raises ``Unsupported`` of anything else."""

    def text(self, value: Variable, how: str = "str") -> Variable:
        """``str(value)`` or ``repr(value)``."""

    def format(self, value: Variable, spec: str) -> Variable:
        """``format(value, spec)``."""

    def percent(self, text: str, given: Variable) -> str:
        """``text % given``."""

    def by_fields(self, text: str, args: Args, kwargs: Kwargs) -> str:
        """``text.format(*args, **kwargs)``."""


class Iteration(Protocol):
    """What Python's iteration comes to."""

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

    def exception_as_stop(self, action: Callable[[], Variable]) -> Variable:
        """Turn the program's ``StopIteration`` into exhaustion, with its value."""

    def elements(self, value: Variable, most: int | None = None) -> list[Variable]:
        """All elements of an iterable, as ``list`` takes them; an iterator is asked for no more than ``most``."""

    def among(self, iterable: Variable, value: Variable) -> bool:
        """Whether an iterable gives a value, which it is asked for until it does."""

    def elements_or(self, value: Variable, words: str) -> list[Variable]:
        """All elements of an iterable; the ``TypeError`` of what is none says this."""

    def pairs(self, value: Variable) -> Iterator[tuple[Variable, Variable]]:
        """Keys and values of a mapping, or of an iterable of pairs, as ``dict`` takes them: one after the other."""

    def sort(self, items: list[Variable], key: Variable | None, reverse: Variable | None) -> list[Variable]:
        """Stable order by ``<`` on the keys."""


class Interpreter(Protocol):
    """What variables need of the interpreter that evaluates the program, by part: nothing here is about a certain family.

    ``Any`` stands for values of families that are defined above this module.
    """

    @property
    def state(self) -> State:
        """How far the evaluation is."""

    @property
    def effects(self) -> Effects:
        """What the program makes and changes."""

    @property
    def subgraphs(self) -> Subgraphs:
        """Control flow in the graph."""

    @property
    def custom_gradients(self) -> CustomGradients:
        """The program's own backwards."""

    @property
    def levels(self) -> Levels:
        """Levels of function transforms."""

    @property
    def modes(self) -> FunctionModes:
        """Torch-function modes."""

    @property
    def errors(self) -> Errors:
        """Exceptions of the program."""

    @property
    def guards(self) -> Guards:
        """What must hold for the capture to be used again."""

    @property
    def classes(self) -> Classes:
        """Look-ups in classes."""

    @property
    def identity(self) -> Identity:
        """Which inputs are one object."""

    @property
    def globals(self) -> Globals:
        """Globals of the program's modules."""

    @property
    def builder(self) -> Builder:
        """Between real values and variables."""

    @property
    def recorder(self) -> Recorder:
        """The graph that is recorded."""

    @property
    def calls(self) -> Calls:
        """Calls of what the program calls."""

    @property
    def operators(self) -> Operators:
        """The operators of the language."""

    @property
    def iteration(self) -> Iteration:
        """Iterators, and what is made of all their elements."""


#: The plain value that one of a subclass holds, whatever the subclass says.
_EXACT: dict[type, Callable[[Any], Any]] = {int: int.__pos__, float: float.__pos__, str: str.__str__}


class Variable:
    """``source`` says how to read the value again at run time; None for values made inside the frame.

    ``step`` is the root instruction count at which it was made.
    """

    source: Source | None = None
    step: int = -1
    #: The instance of which it is the built-in part.
    holder: Variable | None = None

    def python_type(self) -> type:
        """The class that ``type()`` gives."""
        raise Unsupported(f"type of {self!r}")

    def as_python(self, m: Interpreter) -> Any:
        """The real Python value, if it is known entirely; raises ``NotConstant``."""
        raise NotConstant(self)

    def may_be_among(self, m: Interpreter, keys: Collection[Hashable]) -> bool:
        """Whether it can be one of these keys, as far as that is told without tying the graph to what it is; guarded if not."""
        return True

    def hash_key(self, m: Interpreter) -> Hashable:
        """What stands for the value as an element or a key: equal for values that a dictionary takes for one."""
        raise Unsupported(f"hash of {self!r}")

    def kept_keys(self, m: Interpreter) -> dict[Hashable, Variable] | None:
        """Of a set or a dictionary what it holds, by hashes that are known; None of anything else."""
        return None

    def truth(self, m: Interpreter) -> bool:
        """``bool(self)``; what that depends on is guarded."""
        raise Unsupported(f"truth value of {self!r}")

    def attribute(self, m: Interpreter, name: str) -> Variable:
        """``self.name``; raises ``AttributeError`` in the program if there is none."""
        if name == "__class__":  # of what is not of the program's classes, which may tell another
            return m.builder.known(self.python_type())
        raise Unsupported(f"attribute {name!r} of {self!r}")

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        """``self.name = value``."""
        raise Unsupported(f"setting attribute {name!r} of {self!r}")

    def delete_attribute(self, m: Interpreter, name: str) -> None:
        """``del self.name``."""
        raise Unsupported(f"deleting attribute {name!r} of {self!r}")

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        """``self(*args, **kwargs)``."""
        raise Unsupported(f"call of {self!r}")

    def calls_through(self, m: Interpreter, args: Args, kwargs: Kwargs) -> tuple[Variable, Args, Kwargs] | None:
        """The call that a call of this comes to and that alone, if there is one."""
        return None

    #: Functions that a call of this runs around the one that it comes to, outermost first: their code, and which of their calls with packed
    #: arguments that is.
    passed: tuple[tuple[types.CodeType, int], ...] = ()

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        """``self.name(*args, **kwargs)``."""
        return m.calls.call(self.attribute(m, name), args, kwargs)

    def length(self, m: Interpreter) -> Variable:
        """``len(self)``."""
        raise Unsupported(f"length of {self!r}")

    def iterate(self, m: Interpreter) -> Variable:
        """``iter(self)``: the variable of an iterator."""
        raise Unsupported(f"iteration over {self!r}")

    def next(self, m: Interpreter) -> Variable:
        """Next element of an iterator; raises ``StopIter``."""
        raise Unsupported(f"next() of {self!r}")

    def item(self, m: Interpreter, key: Variable) -> Variable:
        """``self[key]``."""
        raise Unsupported(f"subscript of {self!r}")

    #: Whether an item may be assigned whose key was not looked at.
    takes_keys_unseen = False

    def set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        """``self[key] = value``."""
        raise Unsupported(f"item assignment to {self!r}")

    def delete_item(self, m: Interpreter, key: Variable) -> None:
        """``del self[key]``."""
        raise Unsupported(f"item deletion from {self!r}")

    def contains(self, m: Interpreter, value: Variable) -> bool:
        """``value in self`` by iteration, as Python does without ``__contains__``."""
        return m.iteration.among(self, value)

    #: Whether a ``__hash__`` may tell what changes in it: of anything but what looks things up by hashes.
    may_tell_hashes = True
    #: Whether an attribute may be set that its class knows nothing of.
    takes_attributes = False

    def realize(self, m: Interpreter) -> Variable:
        """The variable itself; an input not looked at yet installs its guards here."""
        return self

    # Reconstruction: generated code makes the value again after a graph ran

    #: Whether iterating over the value runs code of the program: handed out, that runs outside the graph.
    runs_later = False

    def made_of(self) -> Iterable[Variable]:
        """The values that ``reconstruct`` loads.

        Raises ``CannotReconstruct`` where code cannot make the value again: the graph then ends before it was made.
        """
        raise CannotReconstruct(self, f"{self!r} cannot be rebuilt after a graph break")

    def reconstruct(self, e: Emitter) -> None:
        """Push the value."""
        raise CannotReconstruct(self, f"{self!r} cannot be rebuilt after a graph break")

    def reconstruct_empty(self, e: Emitter) -> None:
        """Push one that contains itself, without what it is made of."""
        raise CannotReconstruct(self, f"{self!r} contains itself")

    def fill(self, e: Emitter) -> None:
        """Give the one on top of the stack, which ``reconstruct_empty`` pushed, what it is made of."""
        raise CannotReconstruct(self, f"{self!r} contains itself")

    # Side effects: after the graph ran, an object from outside is changed as the frame changed it

    def written(self) -> Iterable[Variable]:
        """The values that the frame put into it."""
        raise Unsupported(f"side effect on {self!r}")

    def replay(self, e: Emitter) -> None:
        """Change the real object, which ``e.load`` pushes; so it does the values, which all lie in locals by then."""
        raise Unsupported(f"side effect on {self!r}")

    def let_go(self) -> Iterable[Any]:
        """The real objects that it held from outside and does not any more, as far as that is known."""
        return ()

    #: Whether ``with`` takes it, by its attributes ``__enter__`` and ``__exit__``.
    manages_context = False

    #: Whether its class decides about operators before any other operand's, by ``operate``.
    rules_operators = False

    def operate(self, m: Interpreter, symbol: str, operands: list[Variable]) -> Variable:
        """The operator of one or two operands, of which this is one; the symbol of an assignment has changed the first."""
        raise Unsupported(f"{symbol} of {self!r}")

    def as_number(self, m: Interpreter, cls: type) -> Variable | None:
        """``bool``, ``int`` or ``float`` of data, as a symbolic number; None where the value holds none."""
        return None

    def data_as_tensor(self, m: Interpreter) -> Variable | None:
        """The tensor over the memory that a value's data lies in; None for values that have none."""
        return None

    # Operators on built-in values, where no method written in Python decides

    def as_operand(self, m: Interpreter) -> Variable:
        """What operators take it for: of a view that is a set or a dictionary."""
        return self

    def binary(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        """``self symbol other``; None where both are computed for real, if they are known, or refused."""
        return None

    def inplace(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        """The same of an assignment such as ``+=``, if it changes the object: the object. None if it makes a new one."""
        return None

    def compare(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        """``self symbol other`` of a comparison; None where both are compared for real, if they are known, or refused."""
        return None

    # The graph

    #: What computes the value in the graph; None if the graph does not.
    node: fx.Node | None = None

    def attached(self) -> Iterable[Variable]:
        """What a result of the graph is given after the graph ran, where code that goes on has it."""
        return ()

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        """As argument of a torch operation: what the graph has there, and what the fakes take; raises ``Unsupported``."""
        try:
            plain = self.as_python(m)
        except NotConstant:
            plain = None
        if isinstance(plain, int | float | str):
            if type(plain) not in (
                bool,
                int,
                float,
                str,
            ):  # a graph's code could not write it, nor do operations tell it apart
                plain = next(exact(plain) for cls, exact in _EXACT.items() if isinstance(plain, cls))
            return plain, plain
        raise Unsupported(f"{self!r} as argument of a torch operation")

    def contents(self, m: Interpreter) -> Iterable[Variable]:
        """What a container holds that operations take with what is in it: nothing, of any other value."""
        return ()

    def settle(self, m: Interpreter, seen: set[int]) -> None:
        """Fix the symbolic numbers in it, each with a guard, where what they are is needed; ``seen`` are ids of what was looked at."""
        if id(self) not in seen:
            seen.add(id(self))
            for part in list(self.contents(m)):
                part.realize(m).settle(m, seen)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
