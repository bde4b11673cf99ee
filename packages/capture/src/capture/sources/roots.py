"""Sources that are read from nothing else: locals, free variables, globals, and objects known at capture."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from capture.bytecode import build
from capture.bytecode.instruction import Instruction
from capture.records import SAME, record

from .base import FrameValues, Source


@record()
class Local(Source):
    """An argument of the frame, `*args` and `**kwargs` as the tuple and the dict.

    `load` reads the plain local: code that makes a cell of it must use `LOAD_DEREF` after its `MAKE_CELL`. Of what holds the
    arguments of another function `entries` are that function's parameters, for the names of what is read from it.
    """

    local: str
    entries: tuple[str, ...] | None = field(default=None, compare=False)

    def spelled(self) -> str:
        return self.local

    def entry(self, key: object) -> str | None:
        """What the function whose arguments these are calls the one under a key; None if nobody knows."""
        if self.entries is None or isinstance(key, str):
            return None if self.entries is None else str(key)
        return self.entries[key] if isinstance(key, int) and 0 <= key < len(self.entries) else None

    def load(self) -> list[Instruction]:
        return build.load_fast(self.local)

    def read(self, values: FrameValues) -> Any:
        return values.args[self.local]


@record()
class Closure(Source):
    """The content of a free variable's cell."""

    free: str

    def spelled(self) -> str:
        return self.free

    def load(self) -> list[Instruction]:
        return build.load_deref(self.free)

    def read(self, values: FrameValues) -> Any:
        return values.free(self.free)


@record()
class ClosureCell(Source):
    """A free variable's cell itself."""

    free: str

    def spelled(self) -> str:
        return f"the cell of {self.free}"

    def load(self) -> list[Instruction]:
        return build.load_closure(self.free)

    def read(self, values: FrameValues) -> Any:
        return values.cell(self.free)


@record()
class Global(Source):
    """A global of the frame's own module; not a builtin."""

    variable: str

    def spelled(self) -> str:
        return self.variable

    def load(self) -> list[Instruction]:
        return build.load_global(self.variable)

    def read(self, values: FrameValues) -> Any:
        return values.globals[self.variable]


@record()
class Builtin(Source):
    """A builtin that no global of the frame's module hides."""

    builtin: str

    def spelled(self) -> str:
        return self.builtin

    def load(self) -> list[Instruction]:
        return build.load_global(self.builtin)

    def read(self, values: FrameValues) -> Any:
        return values.builtins[self.builtin]


@record()
class Namespace(Source):
    """The dictionary of the frame's globals, or of its builtins, itself: for guards alone."""

    of: Literal["globals", "builtins"]

    def spelled(self) -> str:
        return f"the frame's {self.of}"

    def read(self, values: FrameValues) -> Any:
        return getattr(values, self.of)


@record()
class ModuleGlobal(Source):
    """A global of another module: what an inlined function's code names. `namespace` is its `__globals__`."""

    module: str = field(compare=False)
    variable: str
    namespace: dict[str, Any] = field(repr=False, metadata=SAME)

    @property
    def parent(self) -> Source:
        return Const(self.namespace, self.module)

    def spelled(self) -> str:
        return f"{self.module}.{self.variable}"

    def load(self) -> list[Instruction]:
        return [
            *build.load_const(self.namespace),
            *build.load_const(self.variable),
            *build.binary_subscr(),
        ]

    def read(self, values: FrameValues) -> Any:
        return self.namespace[self.variable]


@record()
class Const(Source):
    """An object known at capture, held by the generated code. `label` names it in reports."""

    value: Any = field(metadata=SAME)
    label: str = field(default="", compare=False)

    def spelled(self) -> str:
        return self.label or f"<{type(self.value).__qualname__} constant>"

    def load(self) -> list[Instruction]:
        return build.load_const(self.value)

    def read(self, values: FrameValues) -> Any:
        return self.value
