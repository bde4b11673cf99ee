"""The symbolic machine: the chain of behaviours as one class."""

from __future__ import annotations

from capture.graph import GraphBuilder

from .protocols import Protocols


class Machine(Protocols):
    """Evaluates one frame's bytecode over variables, for one capture attempt."""

    def release(self) -> None:
        """Let go of everything. The fakes' autograd graphs would hide the cycles from the garbage collector."""
        self.graph = GraphBuilder()
        self.guards = {}
        self.root_globals = {}  # the fakes live on with the graph, and through where they are made know this
        for table in (
            self.memo,
            self.reached,
            self.globals_read,
            self.globals_written,
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
