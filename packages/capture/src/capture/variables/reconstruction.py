"""What variables need of the code generator to say how their values are made again after a graph ran, and changed as the frame changed them.

``Any`` stands for variables, which are defined above this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from capture.bytecode import Instruction
from capture.errors import CaptureError
from capture.sources import Source


class CannotReconstruct(CaptureError):
    """Signal: code cannot make a live value again; it must be made for real, at the step that created it.

    ``variable`` is the value's, ``why`` says in words what is in the way.
    """

    def __init__(self, variable: Any, why: str) -> None:
        super().__init__(why)
        self.variable = variable
        self.why = why


class Emitter(Protocol):
    """Collects the instructions that reconstruct values; each is made once, however often it is loaded."""

    #: The locals that keep what was made, by the identity of the variable.
    temps: dict[int, str]
    #: Whether something refers to the frame that may outlive it.
    leaves_frame: bool

    @property
    def m(self) -> Any:
        """The interpreter, at the end of its evaluation."""

    def emit(self, *parts: Iterable[Instruction]) -> None:
        """Add instructions, such as the snippets of ``bytecode.build``."""

    def temp(self) -> str:
        """The name of a fresh local."""

    def load(self, variable: Any) -> None:
        """Push a value: from where it is read, from the local that keeps it, or made now."""

    def load_source(self, source: Source) -> None:
        """Push what is read from a source."""

    def load_globals(self, namespace: dict[str, Any]) -> None:
        """Push the globals of a function."""

    def takes_passed(self, source: Source) -> bool:
        """Whether what lies there is not at hand yet, and needed for nothing but to be held: it may be read late."""

    def have(self, source: Source) -> None:
        """Take off the stack what lies there, for who needs it."""

    def load_many(self, values: Iterable[Any]) -> int:
        """Push values one after the other; how many."""

    def load_list(self, values: list[Any]) -> None:
        """Push a new list of values."""

    def move(self, container: Any, moving: Callable[[], None]) -> None:
        """Move the iterator on top of the stack, now or once the container that it goes over has its new content."""

    def call(self, function: Any, args: list[Any]) -> None:
        """Push ``function(*args)`` of a real function."""

    def call_discarding(self, function: Any, args: list[Any]) -> None:
        """The same without its result."""

    def call_with_list(self, method: Any, owner: Any, values: list[Any]) -> None:
        """Call a method that takes one iterable with a list of values; without its result."""


def method_of(cls: type, name: str) -> Any:
    """A method of a real class, unbound."""
    return getattr(cls, name)
