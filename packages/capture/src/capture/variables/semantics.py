"""Parts of the interpreter that do what the language does: calls, operators, iteration and exceptions.

``Any`` stands for values of families that are defined above.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol, TypeVar

V = TypeVar("V")
"""What stands for a value of the program: ``base.Variable``, of which nothing here knows more."""


class Errors(Protocol[V]):
    """Exceptions of the program under evaluation."""

    @property
    def handled(self) -> V | None:
        """The exception that is being handled; None where only the frame's callers may handle one."""

    def current(self, m: Any) -> V | None:
        """The exception that is being handled, by whomever; guards that nothing is outside the frame either."""

    def handling(self, raised: V) -> V | None:
        """What an exception that is raised now has for its context; None: what is handled where the frame begins."""

    def current_outside(self, m: Any) -> bool:
        """Whether the frame's callers are handling one; guarded if not."""

    def throw(self, cls: type, message: str) -> NoReturn:
        """Raise an exception in the program under evaluation: the signal ``SymbolicRaise``."""

    def throw_value(self, cls: type, args: list[V]) -> NoReturn:
        """The same with any arguments."""

    def make_exception(self, cls: type, args: list[V]) -> V:
        """A new exception object."""


class Calls(Protocol[V]):
    """Calls of functions, and the frames of their bodies."""

    @property
    def suspended(self) -> int:
        """How many generators and the like were made, and have not been seen to die."""

    def call(self, function: V, args: list[V], kwargs: dict[str, V]) -> V:
        """``function(*args, **kwargs)``."""

    def call_from(
        self,
        caller: Any,
        function: V,
        args: list[V],
        kwargs: dict[str, V],
        keeping: V | None = None,
        handing: tuple[type[V], ...] = (),
    ) -> V:
        """The same for an operation of a frame that only pushes what it gives, or ``keeping``: the graph may break within.

        Calls of all but ``handing`` hold the arguments until they return.
        """

    def class_body(self, function: Any, *, once: bool) -> dict[str, V]:
        """Evaluate the function of a class statement; what it puts into the class, in order; each name ``once``, or it is refused."""

    def call_function(self, function: Any, args: list[V], kwargs: dict[str, V]) -> V:
        """A Python function: known as a whole, a torch operation, or inlined."""

    def inline(self, function: Any, args: list[V], kwargs: dict[str, V]) -> V:
        """Evaluate the body of a Python function, whatever is known of calls of it."""

    def resume_generator(self, frame: Any, sent: V | None, error: Any) -> tuple[bool, V]:
        """Continue a generator's frame, maybe with an exception; (whether it yielded, the value)."""

    def delegate_of(self, frame: Any) -> V | None:
        """What a suspended generator's frame waits for in a ``yield from`` or ``await``; None if it waits in neither."""

    def end_delegation(self, frame: Any, value: V) -> None:
        """Go on after a ``yield from`` or ``await`` that a frame is suspended in, as if it had come to this value."""

    def understood(self, value: types.FunctionType) -> bool:
        """Whether a function is known as a whole: which one it is counts, not what it runs."""

    def exception_of(self, what: V, refusal: str) -> V:
        """The exception object that ``raise X`` means; ``refusal`` begins what is said of anything else."""

    def thrown(self, args: list[V]) -> V:
        """The exception object that ``throw(X)`` means, or ``throw(class, value, traceback)``."""


class Operators(Protocol[V]):
    """What Python's operators and conversions come to."""

    def unary(self, symbol: str, value: V) -> V:
        """``-value``, ``+value``, ``~value`` or ``abs(value)``."""

    def binary(self, symbol: str, left: V, right: V) -> V:
        """``left <symbol> right``."""

    def inplace(self, symbol: str, left: V, right: V) -> V:
        """``left <symbol> right`` with the symbol of an assignment, such as ``+=``; gives the new ``left``."""

    def compare(self, symbol: str, left: V, right: V) -> V:
        """``left <symbol> right`` with the symbol of a comparison."""

    def is_(self, left: V, right: V) -> bool:
        """``left is right``."""

    def equal(self, left: V, right: V) -> bool:
        """Identity or equality, as containers compare."""

    def truth(self, value: V) -> bool:
        """``bool(value)``."""

    def index(self, value: V) -> int:
        """A real integer, as ``operator.index`` gives."""

    def answer(self, found: V, kind: type, method: str) -> V:
        """What one of the program's special methods gave, where Python insists on a `kind`. Raises ``Unsupported`` of anything else."""

    def text(self, value: V, how: str = "str") -> V:
        """``str(value)`` or ``repr(value)``."""

    def format(self, value: V, spec: str) -> V:
        """``format(value, spec)``."""

    def percent(self, text: str, given: V) -> str:
        """``text % given``."""

    def by_fields(self, text: str, args: list[V], kwargs: dict[str, V]) -> str:
        """``text.format(*args, **kwargs)``."""


class Iteration(Protocol[V]):
    """What Python's iteration comes to."""

    def iterate(self, value: V) -> V:
        """``iter(value)``."""

    def iterate_with(self, method: V) -> V:
        """What an ``__iter__`` gives."""

    def checked(self, found: V, asked: str) -> V:
        """What one of the program's special methods gave for an iterator; raises in the words of what ``asked`` for it."""

    def next_value(self, iterator: V) -> V:
        """``next(iterator)``."""

    def next_of_object(self, owner: V) -> V:
        """``__next__`` of a user's object; its ``StopIteration`` becomes the signal."""

    def stop_as_exception(self, action: Callable[[], V]) -> V:
        """Turn exhaustion into the program's ``StopIteration``."""

    def exception_as_stop(self, action: Callable[[], V]) -> V:
        """Turn the program's ``StopIteration`` into exhaustion, with its value."""

    def elements(self, value: V, most: int | None = None) -> list[V]:
        """All elements of an iterable, as ``list`` takes them; an iterator is asked for no more than ``most``."""

    def among(self, iterable: V, value: V) -> bool:
        """Whether an iterable gives a value, which it is asked for until it does."""

    def each(self, value: V) -> Iterator[V]:
        """The elements of an iterable one after the other, for what acts on each before it asks for the next."""

    def elements_or(self, value: V, words: str) -> list[V]:
        """All elements of an iterable; the ``TypeError`` of what is none says this."""

    def listed(self, value: V) -> list[V]:
        """All elements of an iterable, by what makes a list of them, which asks for a length, too."""

    def tupled(self, value: V) -> list[V]:
        """All elements of an iterable, by what makes a tuple of them."""

    def ask_length(self, value: V) -> None:
        """Ask an object of the program's for its length, or else for a guess, as for the room of a list: a ``TypeError`` is let pass."""

    def pairs(self, value: V) -> Iterator[tuple[V, V]]:
        """Keys and values of a mapping, or of an iterable of pairs, as ``dict`` takes them: one after the other."""

    def sort(self, items: list[V], key: V | None, reverse: V | None) -> list[V]:
        """Put what a list holds into a stable order by ``<`` on the keys; where that raises, they stay as far as they came."""
