"""The FX graph being built: placeholders in order of first use, torch calls, outputs; and the finished ``CapturedGraph``."""

from __future__ import annotations

import operator
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import torch
from torch import fx

from symshapes import Checkpoint, OtherWay, dataclass, require

from . import _torch
from ._native import address
from .causes import Cause, cause_of
from .graph_code import GraphCodeModule
from .guards import Guard, GuardKind
from .sources import Source

#: Types of what is called that have hashes and names of their own.
_NAMED = frozenset({str, types.FunctionType, types.BuiltinFunctionType})
_INTEGRAL = (torch.SymInt, torch.SymBool)
#: What stands in no name.
_NO_LETTER = re.compile(r"\W")


@dataclass(frozen=True)
class Break:
    """A graph break: why, and the user's line."""

    reason: str
    user_line: str

    @property
    def cause(self) -> Cause:
        """What it comes from and what can be done, with the id under which docs/breaks.md tells of it."""
        return cause_of(self.reason)


@dataclass(frozen=True)
class CapturedGraph:
    """One graph: ``module`` takes the tensors and numbers named by ``sources`` in order and returns a tuple.

    ``inputs`` are the placeholders' fake tensors and symbols. ``breaks`` says what ended the graph; empty if the frame did.
    """

    module: fx.GraphModule
    inputs: list[Any]
    sources: list[Source]
    guards: list[Guard]
    shape_env: Any | None
    breaks: list[Break] = field(default_factory=list)
    frozen: list[Source] = field(default_factory=list)
    """With ``freeze``: what is no input but an attribute of ``module``, in the order of first use; guarded to be that very tensor."""
    unfrozen: list[str] = field(default_factory=list)
    """With ``freeze``: which parameters and buffers are inputs all the same, and why."""

    @property
    def sizes(self) -> list[str]:
        """The symbols in words: where each is read, what it was and what it may be; then what was made a constant."""
        if self.shape_env is None:
            return []
        symbols: list[str] = [str(each) for each in self.shape_env.symbols()]
        return symbols + [
            f"{source}: must be {value}, since 0 and 1 are compiled for apart"
            for _, source, value in self.shape_env.constants
        ]

    @property
    def dynamic(self) -> list[str]:
        """Where the sizes and numbers are read that may be others in a call."""
        if self.shape_env is None:
            return []
        return [source for each in self.shape_env.symbols() if each.settled is None for source in each.sources]

    @property
    def conditions(self) -> list[str]:
        """The guards on sizes in words, each with the line that asked or why else it is there."""
        return [guard.condition for guard in self.guards if guard.kind is GuardKind.SHAPE]

    @property
    def op_count(self) -> int:
        """Calls in the graph."""
        return sum(node.op.startswith("call") for node in self.module.graph.nodes)


class GraphBuilder:
    """Adds nodes; every node gets ``meta["val"]`` and ``meta["source"]``, and one whose call does more than give results
    ``meta["effect"]``: "write" or "other", ``meta["lasts"]``: whether that stays if tensors and generators are put back, and
    ``meta["draws"]``: whether random numbers are drawn. One that may raise by what is in its arguments has ``meta["risk"]``: whether the
    program handles it. Calls within a checkpoint have it in ``meta["checkpoint"]``."""

    def __init__(self) -> None:
        self.graph = _torch.new_graph()
        self.sources: list[Source] = []
        self.inputs: list[Any] = []
        self.placeholders: list[fx.Node] = []
        self.frozen: dict[str, torch.Tensor] = {}
        self.witnesses: list[torch.Tensor] = []
        #: All nodes but the output, in the order in which they were made; also those that were taken out since.
        self.made: list[fx.Node] = []
        self.first_call: fx.Node | None = None
        #: What the graph made of the names of what is called.
        self._names: dict[Any, str] = {}
        self.uncounted: list[Any] = []
        """Fakes whose writes the version counter of what they share memory with does not count."""
        self.unsaid: Sequence[object] = ()
        """Storages that were written to by what no version counter tells of."""
        #: What the backward of further calls is to compute again.
        self.checkpoint: Checkpoint | None = None

    def placeholder(self, source: Source, fake: Any, line: str) -> fx.Node:
        """A new input, read from ``source``."""
        name = _NO_LETTER.sub("_", source.name).strip("_") or "x"
        if name[0].isdigit() or name == "self":
            name = "x" + name
        plain = name if name.islower() else None  # the graph writes others its own way
        if self.first_call is None:
            node = self.graph.create_node("placeholder", name, name=plain)
        else:
            with self.graph.inserting_before(self.first_call):
                node = self.graph.create_node("placeholder", name, name=plain)
        # The graph's own name for it is legal and its alone; the target becomes an argument's name.
        if node.target != node.name:
            node.target = node.name
        node.meta.update(val=fake, source=line, version=_version(fake), layout=_layout(fake))
        self.sources.append(source)
        self.inputs.append(fake)
        self.placeholders.append(node)
        self.made.append(node)
        return node

    def call(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], line: str) -> fx.Node:
        """A new node. ``op`` is ``"call_function"`` or ``"call_method"``; ``line`` is that of the user."""
        name = self._names.get(target) if type(target) in _NAMED else None
        node = self.graph.create_node(op, target, args, kwargs, name)
        if name is None and type(target) in _NAMED and node.name == getattr(target, "__name__", target):
            self._names[target] = node.name  # what it is called after: others of its name are told apart by numbers
        node.meta["source"] = line
        if self.checkpoint is not None:
            node.meta["checkpoint"] = self.checkpoint
        if self.first_call is None:
            self.first_call = node
        self.made.append(node)
        return node

    def changed_inputs(self) -> list[bool]:
        """Which inputs are changed in place, as version counters tell; without one, all tensors if any call may.

        What `Tensor.data` gives counts its own writes; those of running statistics nobody counts.
        """
        versions = [_version(fake) for fake in self.inputs]
        if None in versions:
            may = any(_writes(node) for node in self.graph.nodes)
            return [may and isinstance(fake, torch.Tensor) for fake in self.inputs]
        written = {fake.storage_key for fake in self.uncounted if _version(fake) != 0}.union(self.unsaid)
        return [
            version != n.meta["version"] or (bool(written) and getattr(f, "storage_key", None) in written)
            for version, f, n in zip(versions, self.inputs, self.placeholders, strict=True)
        ]

    def changes_inputs(self) -> bool:
        """Whether any input is changed in place."""
        return any(self.changed_inputs())

    @property
    def lasts(self) -> bool:
        """Whether a call does what stays if tensors and generators of random numbers are put back."""
        return any(node.meta.get("lasts", "effect" in node.meta) for node in self.graph.nodes)

    @property
    def risks(self) -> list[fx.Node]:
        """The calls that may raise by what is in their arguments."""
        return [node for node in self.graph.nodes if "risk" in node.meta]

    @property
    def takes_other_ways(self) -> bool:
        """Whether the frame has to start again where the graph raises."""
        return any(map(takes_other_way, self.graph.nodes))

    def unread_risks(self, outputs: Sequence[fx.Node], line: str) -> list[fx.Node]:
        """What must be among the outputs as well, for its call to be made: it may raise, and nothing that is done depends on it."""
        risks = self.risks
        if not risks:
            return []
        todo = [*outputs, *(node for node in self.graph.nodes if _has_effect(node))]
        read: set[fx.Node] = set()
        while todo:
            node = todo.pop()
            if node not in read:
                read.add(node)
                todo += node.all_input_nodes
        found: list[fx.Node] = []
        for node in risks:
            value = node.meta.get("val")
            if node in read or not isinstance(value, torch.Tensor):
                continue
            apart = node
            if value.requires_grad:  # nobody differentiates it
                apart = self.call("call_method", "detach", (node,), {}, line)
                apart.meta["val"] = value.detach()
            found.append(apart)
        return found

    def generators(self) -> list[torch.Generator]:
        """What the calls draw random numbers from."""
        found: dict[int, torch.Generator] = {}
        for node in self.graph.nodes:
            if not node.meta.get("draws"):
                continue
            given = [each for each in _parts((node.args, node.kwargs)) if isinstance(each, torch.Generator)]
            values = [each for each in _parts(node.meta.get("val")) if isinstance(each, torch.Tensor)]
            for generator in given or [default_generator(each.device) for each in values]:
                found[address(generator)] = generator
        return list(found.values())

    def laid_out_anew(self) -> bool:
        """Whether an input has another layout at the graph's end (``t_``, ``resize_``): its fake is then no example of it."""
        return any(
            changed and _layout(fake) != node.meta["layout"]
            for changed, fake, node in zip(self.changed_inputs(), self.inputs, self.placeholders, strict=True)
        )

    def tensor_sources(self) -> list[Source]:
        """Where the inputs are read that are tensors, and no numbers."""
        return [s for s, fake in zip(self.sources, self.inputs, strict=True) if isinstance(fake, torch.Tensor)]

    def is_empty(self, outputs: Sequence[fx.Node], mutated: bool) -> bool:
        """Whether the graph has nothing to do: no outputs computed, no input changed, no random numbers drawn."""
        if mutated:
            return False
        if any(node.op != "placeholder" for node in outputs):
            return False
        return not any(_has_effect(node) for node in self.graph.nodes)

    def finish(self, outputs: Sequence[fx.Node]) -> None:
        """Set the outputs, drop unused ``getitem`` nodes, numbers and placeholders."""
        self.graph.output(tuple(outputs))
        for node in reversed(list(self.graph.nodes)):
            if not node.users and _gives_what_is_there(node):
                self.graph.erase_node(node)
        self._keep([i for i, node in enumerate(self.placeholders) if node.users])

    def freeze(self, tensors: Mapping[fx.Node, torch.Tensor], witnesses: Sequence[torch.Tensor] = ()) -> None:
        """Once it is finished: these inputs are attributes of the module, which holds the tensors, and `witnesses` besides."""
        self.witnesses = list(witnesses)
        for node, tensor in tensors.items():
            name = f"frozen_{node.name}"
            self.frozen[name] = tensor
            with self.graph.inserting_before(node):
                constant = self.graph.create_node("get_attr", name, (), {})
            constant.meta |= {"val": node.meta["val"], "source": node.meta["source"]}
            node.replace_all_uses_with(constant)
        self._keep([i for i, node in enumerate(self.placeholders) if node not in tensors])

    def _keep(self, kept: Sequence[int]) -> None:
        """Drop the other inputs, which nobody reads."""
        stay = set(kept)
        for i, node in enumerate(self.placeholders):
            if i not in stay:
                self.graph.erase_node(node)
        self.sources = [self.sources[i] for i in kept]
        self.inputs = [self.inputs[i] for i in kept]
        self.placeholders = [self.placeholders[i] for i in kept]

    def module(self) -> fx.GraphModule:
        """The finished graph as a module of its own."""
        root: Any = self.frozen or torch.nn.Module()
        made = GraphCodeModule(root, self.graph)
        for number, tensor in enumerate(self.witnesses):
            setattr(made, f"witness_{number}", tensor)
        return made


def _gives_what_is_there(node: fx.Node) -> bool:
    """Whether a call only takes a part of a result, or is about integers: where such a call would raise is guarded."""
    if node.op == "call_function" and node.target is operator.getitem:
        return True
    integral = isinstance(node.meta.get("val"), _INTEGRAL) and not any(
        isinstance(each.meta.get("val"), torch.SymFloat) for each in node.all_input_nodes
    )
    return integral and node.op.startswith("call") and not _has_effect(node)


def takes_other_way(node: fx.Node) -> bool:
    """Whether a call checks that the program goes the way that was captured; where it fails the frame has to start again.

    So does a call of which ``meta["caught"]`` says that a handler of the program is around it.
    """
    return (node.target is require and node.args[2] == OtherWay.__name__) or "caught" in node.meta


def _parts(value: Any) -> Iterator[Any]:
    """A value, or what is in it where it holds others."""
    if isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _parts(each)
    else:
        yield value


def _version(fake: Any) -> int | None:
    if not isinstance(fake, torch.Tensor):
        return 0
    return None if fake.is_inference() else fake._version


def default_generator(device: torch.device) -> torch.Generator:
    """What random numbers on a device are drawn from where nobody says from what."""
    if device.type == "cuda":
        return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    return torch.default_generator


def _layout(fake: Any) -> tuple[Any, ...]:
    if not isinstance(fake, torch.Tensor):
        return ()
    return tuple(fake.shape), fake.stride(), fake.storage_offset()


def _has_effect(node: fx.Node) -> bool:
    """Whether a call did more than give results, as its run on fakes showed: ops that write, draw or return nothing."""
    return "effect" in node.meta


def _writes(node: fx.Node) -> bool:
    """Whether a call wrote to a tensor."""
    return node.meta.get("effect") == "write"
