"""Programs that were compiled before, in this process or another: found by what was captured, before anything of it is traced.

Flows in: a captured graph, and how it is compiled. Flows out: what runs it, if it was kept; or a keeper that keeps what is compiled now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

import aotgrad
import inductor
from inductor import CompiledGraph, Options


class Keeper:
    """One program of inference. Where its `key` is None it has to be compiled, and can't be kept."""

    def __init__(self, program: fx.GraphModule, inputs: Sequence[Any], options: Options) -> None:
        self._program, self._inputs, self._options = program, inputs, options
        self.key: str | None = None
        self.plan: aotgrad.Plan | None = None
        self.graph: CompiledGraph | None = None
        if torch.is_grad_enabled() and any(getattr(value, "requires_grad", False) for value in inputs):
            return  # it may be differentiated
        try:
            said = aotgrad.described(program, inputs)
        except aotgrad.Undescribable:
            return
        self.key = inductor.program_key(said.text, said.device_types, options, (__package__,))

    def load(self) -> Callable[..., Any] | None:
        """What runs the program, if it was kept; `graph` is then the compiled graph."""
        found = None if self.key is None else inductor.load_program(self.key, self._options)
        if found is None:
            return None
        try:
            plan = aotgrad.plan_of(found.note)
        except (ValueError, KeyError, TypeError, AttributeError):  # of another version of this package
            return None
        self.graph = found.graph
        return aotgrad.run_planned(plan, self._program, self._inputs, found.graph)

    def keep(self) -> None:
        """Keep what was compiled: `plan` and `graph`, where there was one of each."""
        if self.key is None or self.plan is None or self.graph is None:
            return
        try:
            note = aotgrad.plan_text(self.plan)
        except aotgrad.Unstorable:
            return
        inductor.keep_program(self.key, self.graph, note, self._options)

    def take_plan(self, plan: aotgrad.Plan) -> None:
        """Called when the program turns out to be one of inference."""
        self.plan = plan

    def take_graph(self, graph: CompiledGraph) -> None:
        """Called with each graph that is compiled; a program with several is not kept."""
        self.graph = graph if self.graph is None else None
        self.key = None if self.graph is None else self.key
