"""Running a captured graph, node by node, so that the tracer knows the user's line of every op.

In: an `fx.GraphModule` of torch calls (modules and attributes allowed) and its inputs. Out: what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import fx

from aotgrad import _torch, formulas
from aotgrad.errors import Unsupported
from aotgrad.polyfills import POLYFILLS
from symshapes import FakeMode, UnbackedError, going_on, taking_symbols

Enter = Callable[[fx.Node], None]


class Shortcut(Protocol):
    """What is called in the place of one call of a graph and of others before it."""

    @property
    def inside(self) -> Collection[fx.Node]:
        """The calls before it that only it reads, or that nothing hangs on."""

    def __call__(self, fetch: Callable[[fx.Node], Any], /) -> Any:
        """The call's value, from those of nodes outside."""


def _left_out(graph: fx.Graph, shortcuts: Mapping[fx.Node, Shortcut]) -> set[fx.Node]:
    """Calls that are not run, those that would read their values (and that no result hangs on) among them."""
    found = {node for shortcut in shortcuts.values() for node in shortcut.inside}
    if found:
        for node in graph.nodes:
            if node not in shortcuts and not found.isdisjoint(node.all_input_nodes):
                found.add(node)
    return found


class QuietInterpreter(fx.Interpreter):
    """FX's interpreter, but errors of the program come through as they are."""

    def __init__(self, module: fx.GraphModule, *, keep_values: bool = False) -> None:
        super().__init__(module, garbage_collect_values=not keep_values)
        self.extra_traceback = False


class TracedRun(QuietInterpreter):
    """One run of a captured graph under a tracer. `enter` hears of each call before it runs. `untraced`: operators whose
    own formulas for gradients are not traced. `shortcuts`: what is called in a call's place, given the values of nodes by `env`'s
    look-up; the calls that it makes needless are not run. `symbolic`: whether sizes are symbols. `note_data` is told of each `Tensor.data`.
    `fake_mode` is where it runs, which finds out what a call that looks at data goes on with.

    What the calls gave stays alive with it, so that `call_of` can tell values apart by identity.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        enter: Enter,
        untraced: Container[Any] = (),
        shortcuts: Mapping[fx.Node, Shortcut] | None = None,
        symbolic: bool = False,
        note_data: Callable[[Any], None] | None = None,
        fake_mode: FakeMode | None = None,
    ) -> None:
        super().__init__(module, keep_values=True)
        self.note_data = note_data
        self.symbolic = symbolic
        self.fake_mode = fake_mode
        self.enter = enter
        self.untraced = untraced
        self.shortcuts = shortcuts or {}
        self.left_out = _left_out(module.graph, self.shortcuts)

    def run_node(self, n: fx.Node) -> Any:
        if n in self.left_out:
            return None
        if n in self.shortcuts:
            self.enter(n)
            return self.shortcuts[n](self.env.__getitem__)
        if n.op.startswith("call_"):
            self.enter(n)
        if self.untraced and (op := formulas.operator_of(n)) in self.untraced:
            return formulas.by_itself(op, *self.fetch_args_kwargs_from_env(n))
        if self.symbolic and _torch.in_transform():
            with _torch.composed_in_python():
                return super().run_node(n)
        return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = taking_symbols(POLYFILLS.get(target, target), (*args, *kwargs.values()))
        result = self._going_on(lambda: super(TracedRun, self).call_function(function, args, kwargs))
        if self.note_data is not None and target is getattr and args[1] == "data":
            self.note_data(result)
        return result

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = POLYFILLS.get(target)
        if function is not None:
            return function(*args, **kwargs)
        method = getattr(args[0], target)
        taking = taking_symbols(method, (*args[1:], *kwargs.values()))
        if taking is not method:
            return taking(*args[1:], **kwargs)
        return self._going_on(lambda: super(TracedRun, self).call_method(target, args, kwargs))

    def _going_on(self, call: Callable[[], Any]) -> Any:
        """What a call gives, also where it looks at data only to refuse it."""
        try:
            return call()
        except (UnbackedError, Unsupported) as error:
            asks = isinstance(error, UnbackedError) or isinstance(error.__cause__, UnbackedError)
            if not asks or self.fake_mode is None or _torch.in_transform():
                raise
            return going_on(self.fake_mode, call, error)

    def call_of(self, value: Any) -> fx.Node | None:
        """The first call that gave this very value; None if none did."""
        return next((n for n, given in self.env.items() if given is value and n.op.startswith("call_")), None)


def attached_tensors(module: Any) -> list[tuple[torch.nn.Module, str, torch.Tensor]]:
    """Tensors that a module holds (parameters, buffers, plain attributes of the root): owner, name, tensor.

    A tensor that is held twice comes once for each place.
    """
    if not isinstance(module, torch.nn.Module):
        return []
    found: list[tuple[torch.nn.Module, str, torch.Tensor]] = []
    for owner in module.modules():
        for table in (owner._parameters, owner._buffers, vars(owner)):
            for name, tensor in table.items():
                if isinstance(tensor, torch.Tensor):
                    found.append((owner, name, tensor))
    return found


@contextmanager
def swapped(places: Sequence[tuple[torch.nn.Module, str, torch.Tensor]], values: Sequence[Any]) -> Iterator[None]:
    """Let modules hold `values` where they hold the tensors of `places`."""
    tables: list[dict[str, Any]] = []
    for owner, name, tensor in places:
        held: tuple[dict[str, Any], ...] = (owner._parameters, owner._buffers, vars(owner))
        for table in held:
            if table.get(name) is tensor:
                tables.append(table)
                break
    for table, (_, name, _tensor), value in zip(tables, places, values, strict=True):
        table[name] = value
    try:
        yield
    finally:
        for table, (_, name, tensor) in zip(tables, places, strict=True):
            table[name] = tensor
