"""How a call of a compiled graph ends: writes to inputs, and outputs made of results.

In: the `Signature`. Out: lines of the generated function, in the order that autograd needs.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from aotgrad import _torch
from aotgrad.signature import Alias, Computed, Constant, InputItself, Mutation, Repeated, ResultSize, Shape, Signature
from aotgrad.source import Source
from aotgrad.views import ViewStep

if TYPE_CHECKING:
    from aotgrad.joint import Cut


class Epilogue:
    """Writes to inputs, then the outputs; some of them earlier where a way back leads by them.

    Args:
        done: results that are in the inputs' memory by now.
        told: whether the inputs' versions tell so.
    """

    def __init__(self, source: Source, signature: Signature, done: frozenset[int], told: bool = False) -> None:
        self.source = source
        self.signature = signature
        self.done = done
        self.told = told
        self._written: set[int] = set()
        self._made: set[int] = set()
        self._several: dict[str, str] = {}
        self._count = 0

    def input(self, index: int) -> str:
        """An input as it was given."""
        assert index not in self._written, "a write comes after all that is computed from what was there before"
        return f"args[{index}]"

    def cut(self, cut: Cut) -> str:
        """The tensor that users may ask about."""
        if cut.output is not None:
            self._make(cut.output)
            return f"out{cut.output}"
        for mutation in self.signature.mutations:
            if mutation.grad and mutation.result == cut.result:
                self._write(mutation)
                return f"args[{mutation.input}]"
        return f"results[{cut.result}]"

    def write(self) -> None:
        """All that is left."""
        source, signature = self.source, self.signature
        quiet = [m for m in signature.mutations if not m.grad]
        left = [m for m in quiet if m.result not in self.done]
        if quiet:
            self._several.clear()
        if not self.told:
            write_versions(source, signature, self.done)
        if left:
            with self._quiet():
                if len(left) == 1:
                    source.line(f"{_written(left[0])}.copy_(results[{left[0].result}])")
                else:
                    source.names["copy_all"] = _torch.copy_all
                    written = ", ".join(map(_written, left))
                    values = ", ".join(f"results[{m.result}]" for m in left)
                    source.line(f"copy_all([{written}], [{values}])")
        for mutation in signature.mutations:
            if mutation.grad:
                self._write(mutation)
        for position in range(len(signature.outputs)):
            self._make(position)
        leaves = ", ".join(f"out{position}" for position in range(len(signature.outputs)))
        if signature.returns_tuple:
            source.line(f"return ({leaves}{',' if len(signature.outputs) == 1 else ''})")
        else:
            source.names["unflatten"] = pytree.tree_unflatten
            source.names["spec"] = signature.spec
            source.line(f"return unflatten([{leaves}], spec)")

    def _write(self, mutation: Mutation) -> None:
        if mutation.input not in self._written:
            self._written.add(mutation.input)
            self._several.clear()  # autograd forbids to use what was made before the write
            self.source.line(f"args[{mutation.input}].copy_(results[{mutation.result}])")

    def _make(self, position: int) -> None:
        if position in self._made:
            return
        self._made.add(position)
        output = self.signature.outputs[position]
        if isinstance(output, Alias):
            if output.output is not None:
                self._make(output.output)
            for mutation in self.signature.mutations:
                if mutation.grad and mutation.input == output.input:
                    self._write(mutation)
        self.source.line(f"out{position} = {self._output(output)}")

    def _output(self, output: Any) -> str:
        if isinstance(output, Computed):
            return f"results[{output.result}]"
        if isinstance(output, InputItself):
            return f"args[{output.input}]"
        if isinstance(output, Repeated):
            return f"out{output.output}"
        if isinstance(output, Constant):
            return self.source.name(output.value, "constant")
        if isinstance(output, Shape):
            self.source.names["Size"] = torch.Size
            return f"Size({_literal(self.source, output.lengths)})"
        assert isinstance(output, Alias)
        base = f"args[{output.input}]" if output.input is not None else f"results[{output.result}]"
        if output.output is not None:
            base = f"out{output.output}"
        for step in output.steps:
            base = self._step(base, step)
        return base

    def _step(self, base: str, step: ViewStep) -> str:
        source = self.source
        arguments = [base, *(_literal(source, value) for value in step.args)]
        arguments += [f"{name}={_literal(source, value)}" for name, value in step.kwargs.items()]
        text = f"{source.name(_torch.native(step.op), 'view')}({', '.join(arguments)})"
        if step.index is None and step.grad:
            return text
        # Views made together are made once, as in the program.
        key = f"{step.grad} {text}"
        made = self._several.get(key) if step.index is not None else None
        if made is None:
            self._count += 1
            made = f"views{self._count}"
            if step.index is not None:
                self._several[key] = made
            with self._quiet() if not step.grad else source.block():
                source.line(f"{made} = {text}")
        return made if step.index is None else f"{made}[{step.index}]"

    def _quiet(self) -> AbstractContextManager[None]:
        """What is written inside leaves no trace in autograd."""
        source = self.source
        source.names |= {"set_grad": _torch.set_grad_enabled, "is_grad_enabled": torch.is_grad_enabled}
        source.line("grad = is_grad_enabled()")
        return source.within("set_grad(False)", "set_grad(grad)")


def write_versions(source: Source, signature: Signature, written: frozenset[int]) -> None:
    """Let the inputs' versions tell of writes that a compiled graph does, as they do of those by torch: to autograd, and to who keeps what
    follows from the inputs."""
    inputs = [mutation.input for mutation in signature.mutations if mutation.result in written and mutation.counted]
    if inputs:
        source.names["increment_versions"] = _torch.increment_versions
        source.line(f"increment_versions([{', '.join(f'args[{i}]' for i in inputs)}])")


def _written(mutation: Mutation) -> str:
    return f"args[{mutation.input}]" if mutation.counted else f"args[{mutation.input}].data"


def _literal(source: Source, value: Any) -> str:
    if isinstance(value, ResultSize):
        return f"results[{value.result}]"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_literal(source, item) for item in value)}]"
    if value is None or type(value) in (int, bool, str):
        return repr(value)
    return source.name(value, "value")
