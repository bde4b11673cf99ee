"""The symbolic machine: the chain of behaviours as one class."""

from __future__ import annotations

from typing import Any

from capture.graph import GraphBuilder

from .protocols import Protocols


class Machine(Protocols):
    """Evaluates one frame's bytecode over variables, for one capture attempt."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.state: Machine = self
        self.effects: Machine = self
        self.errors: Machine = self
        self.guards: Machine = self
        self.classes: Machine = self
        self.identity: Machine = self
        self.globals: Machine = self
        self.builder: Machine = self
        self.recorder: Machine = self
        self.calls: Machine = self
        self.operators: Machine = self
        self.iteration: Machine = self

    def release(self) -> None:
        """Let go of everything. The fakes' autograd graphs would hide the cycles from the garbage collector."""
        self.graph = GraphBuilder()
        self.table = {}
        self.root_globals = {}  # the fakes live on with the graph, and through where they are made know this
        for table in (
            self.memo,
            self.reached,
            self.globals_read,
            self.written,
            self.changed,
            self.private,
            self.fakes,
            self.sizes,
            self.class_facts,
            self.changing,
            self.ordered,
        ):
            table.clear()
        self.frames.clear()
        self.handled = None
