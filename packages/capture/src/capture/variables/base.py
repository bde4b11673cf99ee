"""What every variable can be asked, and what it may ask of the interpreter.

A variable stands for one Python value of the program under evaluation. The defaults answer "unsupported", which becomes a graph break: a family overrides what it understands.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Protocol

from torch import fx

from capture.errors import NotConstant, Unsupported
from capture.sources import Source

from .assumptions import Classes, Guards, State
from .program_state import Builder, Effects, Globals, Identity
from .reconstruction import CannotReconstruct, Emitter
from .recording import CustomGradients, FunctionModes, Levels, Recorder, Subgraphs
from .semantics import Calls, Errors, Iteration, Operators

Args = list["Variable"]
Kwargs = dict[str, "Variable"]


class SymbolicRaise(Exception):
    """A user exception raised while evaluating; ``exception`` is the variable of the exception object."""

    def __init__(self, exception: Variable) -> None:
        super().__init__(repr(exception))
        self.exception = exception


class Interpreter(Protocol):
    """What variables need of the interpreter that evaluates the program, by part: nothing here is about a certain family.

    ``Any`` stands for values of families that are defined above this module.
    """

    @property
    def state(self) -> State:
        """How far the evaluation is."""

    @property
    def effects(self) -> Effects[Variable]:
        """What the program makes and changes."""

    @property
    def subgraphs(self) -> Subgraphs[Variable]:
        """Control flow in the graph."""

    @property
    def custom_gradients(self) -> CustomGradients[Variable]:
        """The program's own backwards."""

    @property
    def levels(self) -> Levels[Variable]:
        """Levels of function transforms."""

    @property
    def modes(self) -> FunctionModes[Variable]:
        """Torch-function modes."""

    @property
    def errors(self) -> Errors[Variable]:
        """Exceptions of the program."""

    @property
    def guards(self) -> Guards:
        """What must hold for the capture to be used again."""

    @property
    def classes(self) -> Classes:
        """Look-ups in classes."""

    @property
    def identity(self) -> Identity[Variable]:
        """Which inputs are one object."""

    @property
    def globals(self) -> Globals[Variable]:
        """Globals of the program's modules."""

    @property
    def builder(self) -> Builder[Variable]:
        """Between real values and variables."""

    @property
    def recorder(self) -> Recorder[Variable]:
        """The graph that is recorded."""

    @property
    def calls(self) -> Calls[Variable]:
        """Calls of what the program calls."""

    @property
    def operators(self) -> Operators[Variable]:
        """The operators of the language."""

    @property
    def iteration(self) -> Iteration[Variable]:
        """Iterators, and what is made of all their elements."""


#: The plain value that one of a subclass holds, whatever the subclass says.
_EXACT: dict[type, Callable[[Any], Any]] = {int: int.__pos__, float: float.__pos__, str: str.__str__}


class Variable:
    """``source`` says how to read the value again at run time; None for values made inside the frame.

    ``step`` is the root instruction count at which it was made.
    """

    source: Source | None = None
    step: int = -1
    #: The instance of which it is the built-in part, and of an instance of a subclass of a built-in type that part.
    holder: Variable | None = None
    payload: Variable | None = None

    #: Whether nobody can tell how long it lives, as of numbers, and it keeps nothing else alive.
    holds_nothing = False
    #: Whether it lets go of its last part first.
    dies_backwards = False
    #: Whether it is a number of which only is known whose it is: what an object hashes as.
    hashes_by_id = False

    def python_type(self) -> type:
        """The class that ``type()`` gives."""
        raise Unsupported(f"type of {self!r}")

    def as_python(self, m: Interpreter) -> Any:
        """The real Python value, if it is known entirely; raises ``NotConstant``."""
        raise NotConstant(self)

    def may_be_among(self, m: Interpreter, keys: Collection[Hashable]) -> bool:
        """Whether it can be one of these keys, as far as that is told without tying the graph to what it is; guarded if not."""
        return True

    def as_object(self, m: Interpreter) -> None:
        """It is asked for what it is beside what it holds."""

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

    def overrides(self, m: Interpreter) -> bool:
        """Whether torch asks its class what an operation on it comes to."""
        return False

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
        if isinstance(plain, (int, float, str)):
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
