"""Names of the locals that generated code adds to a function's own.

In: the function's code object. Out: identifiers, as every reader of code objects expects (``inspect.signature``,
other compilers, debuggers), that none of the function's variables has.
"""

from __future__ import annotations

from types import CodeType

from symshapes import dataclass


@dataclass(frozen=True)
class Names:
    """The names free for generated code in one function and in what goes on from it after a break."""

    prefix: str

    @staticmethod
    def beside(code: CodeType) -> Names:
        """Names that differ from all variables of ``code``."""
        taken = (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
        prefix = "_capture"
        while any(name.startswith(prefix) for name in taken):
            prefix = "_" + prefix
        return Names(prefix)

    def temporary(self, number: int) -> str:
        """A value on its way from where it is made to where it is used."""
        return f"{self.prefix}_{number}"

    def stack(self, slot: int) -> str:
        """A value of the evaluation stack, handed over at a break."""
        return f"{self.prefix}_stack{slot}"

    def first(self, name: str) -> str:
        """The frame's first argument, where the name itself belongs to a cell."""
        return f"{self.prefix}_first_{name}"

    def own(self, what: str) -> str:
        """A variable of the generated code's own control flow."""
        return f"{self.prefix}_{what}"
