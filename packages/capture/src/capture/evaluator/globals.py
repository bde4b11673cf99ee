"""Globals of the program's modules: read once each with their guards, written in the evaluation alone.

In: names and the dictionaries that hold them. Out: variables, guards, and ``written``, which becomes side effects.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any

from capture._native import address
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.sources import Const, Global, ModuleGlobal, Namespace, Source
from capture.variables.assumptions import Guards
from capture.variables.base import Variable
from capture.variables.placeholders import Lazy
from capture.variables.program_state import Builder
from capture.variables.semantics import Errors

from .builder import Inputs
from .side_effects import SideEffects


class ProgramGlobals:
    """What the names of modules stand for in one attempt; ``root`` are the globals of the captured frame."""

    def __init__(
        self,
        root: dict[str, Any],
        guards: Guards,
        builder: Builder[Variable],
        effects: SideEffects,
        errors: Errors[Variable],
        inputs: Inputs,
    ) -> None:
        #: Those of the captured frame.
        self.own = root
        self._guards = guards
        self._builder = builder
        self._effects = effects
        self._errors = errors
        self._inputs = inputs
        self._found: dict[tuple[int, str], Variable] = {}
        #: By dictionary and name; None for a deleted one.
        self.written: dict[tuple[int, str], tuple[dict[str, Any], Variable | None]] = {}

    def known(self, namespace: dict[str, Any], builtins: dict[str, Any], name: str) -> Variable | None:
        """What a name was before, a global or a built-in; None where it is to be looked up (again, if the program may have changed it, or
        if it is noted what is read)."""
        place = address(namespace)
        noted = self._effects.reads is not None
        if noted or self.written or place in self._inputs or address(builtins) in self._inputs:
            return None
        return self._found.get((place, name))

    def read(self, namespace: dict[str, Any], name: str) -> Variable:
        """A global that exists, as the program has it now."""
        self._check(namespace)
        key = (address(namespace), name)
        written = self.written.get(key)
        if self._effects.reads is not None:
            self._effects.reads.append(namespace[name] if written is None else self.written)
        if written is not None:
            if written[1] is None:
                self._errors.throw(NameError, f"name {name!r} is not defined")
            return written[1]
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._first_read(namespace, name)
        return found

    def has(self, namespace: dict[str, Any], name: str) -> bool:
        """Whether a global exists, as the program has it now."""
        self._check(namespace)
        written = self.written.get((address(namespace), name))
        if written is not None:
            return written[1] is not None
        if namespace is self.own:
            self._note_own()
        self._guards.add(self._place(namespace), GuardKind.HAS_KEY if name in namespace else GuardKind.NO_KEY, name)
        return name in namespace

    def builtin(self, namespace: dict[str, Any], builtins: dict[str, Any], name: str) -> Variable:
        """A built-in; guards that no global hides it."""
        self._check(namespace)
        self._check(builtins)
        written = self.written.get((address(builtins), name))
        if written is not None:
            raise Unsupported(f"the built-in {name!r}, which the program has replaced")
        key = (address(namespace), name)
        found = self._found.get(key)
        if found is None:
            if namespace is self.own:
                self._note_own()
                self._guards.add(Namespace("builtins"), GuardKind.ID, builtins)
            self._guards.add(self._place(namespace), GuardKind.NO_KEY, name)
            if name not in builtins:
                self._guards.add(Const(builtins, "builtins"), GuardKind.NO_KEY, name)
                self._errors.throw(NameError, f"name '{name}' is not defined")
            found = self._found[key] = self.builtin_entry(builtins, name)
        return found

    def builtin_entry(self, builtins: dict[str, Any], name: str) -> Variable:
        """A built-in, whatever globals there are."""
        return self._builder.wrap(builtins[name], ModuleGlobal("builtins", name, builtins))

    def imported(self, name: str) -> Variable:
        """A module that is imported already."""
        modules = self._builder.met(sys.modules)
        if modules is not None and self._effects.has_changed(modules):
            raise Unsupported("an import where the program has changed what is imported")
        if (id(vars(builtins)), "__import__") in self.written:
            raise Unsupported("an import where the program has changed how that is done")
        return self._builder.wrap(sys.modules[name], ModuleGlobal("sys.modules", name, sys.modules))

    def write(self, namespace: dict[str, Any], name: str, value: Variable | None) -> None:
        """Write a global; None deletes it."""
        if address(namespace) in self._inputs:
            raise Unsupported("writing a global of a module whose dictionary was read")
        self._effects.later.renames(namespace, name)
        self._effects.left_behind()
        if name in namespace and (address(namespace), name) not in self.written:
            self._effects.globals_let_go.append((self._effects.step, namespace[name]))
        self.written[(address(namespace), name)] = (namespace, value)

    def release(self) -> None:
        """Let go of the program's objects: the fakes live on with the graph, and through where they are made know this."""
        self.own = {}
        self._found.clear()
        self.written.clear()

    def _first_read(self, namespace: dict[str, Any], name: str) -> Variable:
        value = namespace[name]
        if namespace is self.own:
            self._note_own()
            entry = Lazy(value, Global(name))
            self._guards.reach(entry, self._place(namespace), name)
            return entry
        # At once: were it gone, reading it again would not fail as the program's own way of reading does.
        return self._builder.wrap(value, ModuleGlobal(str(namespace.get("__name__", "?")), name, namespace))

    def _check(self, namespace: dict[str, Any]) -> None:
        """That it was not changed as the dictionary that it is, too: what was written there is not looked for here."""
        found = self._inputs.get(address(namespace))
        if found is not None and address(found[1]) in self._effects.changed:
            raise Unsupported("a global, of a module whose dictionary was changed")

    def _note_own(self) -> None:
        """Another function of the same code may have other globals."""
        self._guards.add(Namespace("globals"), GuardKind.ID, self.own)

    def _place(self, namespace: dict[str, Any]) -> Source:
        """Where a dictionary of globals is asked. The frame's own through the frame: guards belong to its code, which a dictionary may
        hold, and would hold both for good, as a code's extras are nothing that the collector sees."""
        if namespace is self.own:
            return Namespace("globals")
        return Const(namespace, str(namespace.get("__name__", "?")))
