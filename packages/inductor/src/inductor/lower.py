"""From a functional ATen graph to a `Program`: each node through its lowering, or as an ATen kernel.

Flows in: an fx graph whose nodes carry fake values in `meta["val"]`. Flows out: loops and extern calls over buffers.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import fx

from inductor.backends import traits_of
from inductor.ir.builder import MEMORY_DTYPES, Builder, numel
from inductor.ir.indexing import is_empty, product, same
from inductor.ir.program import Buffer, ExternOp, Measure, Program, StridedView
from inductor.ir.recording import Rewriter
from inductor.ir.tensor import Source, TensorValue
from inductor.lowerings import LOWERINGS, VIEWS
from inductor.lowerings.fallback import agree, fallback
from inductor.lowerings.parts import FREE, Parts, apart, lower_apart, parts_of
from inductor.lowerings.registry import BY_LIBRARY, FEW, counted_reads, is_tensor, large_reads, users
from inductor.options import Options
from inductor.passes import BodyRewriter, rewrite_graph, select
from inductor.traits import DeviceTraits, TraitsOf
from symshapes import SYMBOLIC, FloorDiv, expr_of, require

aten = torch.ops.aten

NUMBERS = (*SYMBOLIC, int, float)
FEW_OPERATIONS = 16
FEW_READS = 8
"""Up to these a value in float32 that is computed from halves is rather computed again than kept."""
MANY_OPERATIONS = 64
MANY_READS = 12
"""Beyond these a pending value is put in memory even for one user: kernels would grow without end."""


Left = Callable[[fx.Graph], Collection[str]]
"""The names of those calls of a graph that the library's kernels are to do."""


def none_left(graph: fx.Graph) -> Collection[str]:
    """None: what has a lowering is lowered."""
    return ()


def lower(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options | None = None,
    traits: TraitsOf = traits_of,
    left: Left | None = None,
    writes: Mapping[int, int] | None = None,
) -> Program:
    """Lower a functional ATen graph.

    Args:
        graph_module: nodes are placeholders, get_attr tensors, calls of `OpOverload`s, `operator.getitem` and arithmetic of
            symbolic ints; the output is a flat tuple. Every node has `meta["val"]`.
        example_inputs: one fake tensor or SymInt a placeholder, used where a placeholder lacks `meta["val"]`.
        traits: what is true of each device.
        left: asked for the calls to leave to the library, of the graph as it is after its rewrites.
        writes: results that are the new content of inputs, both by position (`Program.written`); by default what the output
            node's `meta["writes"]` says.

    Raises:
        NotImplementedError: for a call that writes to an argument, or a layout that is not strided.
        ValueError: an option disables a pass that there is not.
    """
    options = options or Options()
    passes = select(options.disabled_passes)
    for node, example in zip(graph_module.graph.find_nodes(op="placeholder"), example_inputs, strict=False):
        node.meta.setdefault("val", example)
    graph, applied = rewrite_graph(graph_module.graph, passes.graph)
    if writes is None:
        writes = graph.output_node().meta.get("writes", {})
    left_calls = (left or none_left)(graph)
    program = _Lowering(
        graph_module, graph, _told(traits, options), BodyRewriter(passes.body), left_calls, writes
    ).run()
    program.rewrites.update(applied)
    return program


def _told(traits: TraitsOf, options: Options) -> TraitsOf:
    """The traits of each device, looked up once, and as the options want them."""
    multiplied = multiplying(traits, options)

    @functools.cache
    def of(device: torch.device) -> DeviceTraits:
        found, unordered, cut = multiplied(device), options.unordered_writes, options.split_reductions
        found = found if cut == "auto" else replace(found, shares_rows=not cut)
        return found if unordered == "auto" else replace(found, orders_writes=not unordered)

    return of


def multiplying(traits: TraitsOf, options: Options) -> TraitsOf:
    """The traits of each device, whose `contractions` are those that are wanted: where the library multiplies there are none unless
    the options ask for them."""

    @functools.cache
    def of(device: torch.device) -> DeviceTraits:
        found = traits(device)
        if found.multiplies_by_library and options.autotune is None:
            return replace(found, contractions=(), convolutions=())
        return found

    return of


class _Lowering:
    """The walk over one graph, whose attributes `module` holds: `env` has each node's lowered value."""

    def __init__(
        self,
        module: fx.GraphModule,
        graph: fx.Graph,
        traits: TraitsOf,
        rewriter: Rewriter,
        left: Collection[str],
        writes: Mapping[int, int],
    ) -> None:
        self.module = module
        self.graph = graph
        self.left = left
        self.builder = Builder({node.name for node in graph.nodes}, traits, rewriter)
        self.env: dict[fx.Node, Any] = {}
        self.apart = apart(graph, traits)
        self.parts: dict[fx.Node, Parts] = {}
        """Complex values as far as they have been read in parts."""
        self.composed: list[tuple[Any, sympy.Symbol]] = []
        """Inputs that are numbers computed from others, and their own symbols."""
        self.writes = writes
        self.inputs = graph.find_nodes(op="placeholder")

    def run(self) -> Program:
        self._find_destinations()
        for node in self.graph.nodes:
            self.builder.node = node
            if node.op == "placeholder":
                self.env[node] = self._input(node)
            elif node.op == "get_attr":
                self.env[node] = self._constant(node)
            elif node.op == "call_function":
                if not self._call_apart(node):
                    self.env[node] = self._call(node)
            elif node.op == "output":
                self._outputs(node)
            else:
                raise NotImplementedError(f"a graph of ATen calls has no {node.op}: {node.format_node()}")
        self._symbol_sources()
        return self.builder.program

    # Inputs

    def _input(self, node: fx.Node) -> Any:
        value = node.meta["val"]
        program = self.builder.program
        if isinstance(value, torch.Tensor):
            program.inputs.append(node.name)
            return self._resolved(node.name, value)
        expr = self.builder.size(value) if isinstance(value, (*SYMBOLIC, int)) else value
        symbol = expr if isinstance(expr, sympy.Symbol) else sympy.Symbol(node.name, integer=True)
        program.inputs.append(symbol)
        if isinstance(expr, sympy.Symbol):
            program.symbols.setdefault(symbol, None)
        elif isinstance(expr, sympy.Basic) and expr.free_symbols:
            self.composed.append((expr, symbol))
        return expr

    def _given(self, name: str, value: torch.Tensor) -> TensorValue:
        """A tensor that exists before the program runs."""
        builder = self.builder
        if value.layout != torch.strided:
            raise NotImplementedError(f"a tensor of layout {value.layout}")
        buffer = builder.new_buffer(
            value.device, value.dtype, builder.sizes(value.size()), builder.sizes(value.stride()), name
        )
        result = builder.in_memory(buffer)
        result.source.storage_offset = builder.size(value.storage_offset())
        result.source.origins = ()
        return result

    def _resolved(self, name: str, value: torch.Tensor) -> Any:
        """An input or a constant, of which memory holds the numbers themselves: a copy, where they are the conjugates or the negatives."""
        given = self._given(name, value)
        if not (value.is_conj() or value.is_neg()):
            return given
        options = {"memory_format": torch.contiguous_format}
        return self.builder.extern(aten.clone.default, (given,), options, value, contiguous=True)

    def _constant(self, node: fx.Node) -> Any:
        value: Any = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            return value
        self.builder.program.constants[node.name] = value
        return self._resolved(node.name, value)

    # Calls

    def _call(self, node: fx.Node) -> Any:
        target: Any = node.target
        if target is operator.getitem and isinstance(node.args[0], fx.Node):
            holder = self.env[node.args[0]]
            if isinstance(holder, tuple | list):
                return holder[node.args[1]]  # type: ignore[index]
        value = node.meta.get("val")
        if target is require:
            return self._promise(node)
        if isinstance(value, NUMBERS) and "defines" in node.meta:
            return self._scalar_from_data(node)
        if isinstance(value, NUMBERS) and not _reads_data(node):
            return expr_of(value) if isinstance(value, SYMBOLIC) else value
        args = fx.node.map_aggregate(node.args, self._argument)
        kwargs = fx.node.map_aggregate(node.kwargs, self._argument)
        if not any(isinstance(n.meta.get("val"), torch.Tensor | tuple | list) for n in (node, *node.all_input_nodes)):
            return target(*args, **kwargs)
        if isinstance(value, SYMBOLIC):
            return self._scalar_from_data(node)
        result = self._lowered(node, args, kwargs)
        self._check(node, result)
        for (place, dim), symbol in node.meta.get("defines", {}).items():
            self._size_from_data(node, result[place] if isinstance(result, tuple | list) else result, dim, symbol)
        self._settle(node, result)
        return result

    def _call_apart(self, node: fx.Node) -> bool:
        """Lower a call of complex numbers to their parts, and say whether nobody wants more of it."""
        if node not in self.apart:
            return False
        args = fx.node.map_aggregate(node.args, self._part)
        made = lower_apart(self.builder, node.target, args)
        if not isinstance(made, Parts):
            self.env[node] = made
            self._check(node, made)
            self._settle(node, made)
            return True
        self.parts[node] = made
        if node.target not in FREE:
            for part in (made.real, made.imag):
                if self._belongs_in_memory(node, part.source):
                    self.builder.realize(part)
        return self.apart[node]

    def _part(self, arg: Any) -> Any:
        if not isinstance(arg, fx.Node) or not (is_tensor(arg) and arg.meta["val"].is_complex()):
            return self._argument(arg)
        if arg not in self.parts:
            self.parts[arg] = parts_of(self.builder, self.env[arg])
        return self.parts[arg]

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, fx.Node):
            return self.env[arg]
        return expr_of(arg) if isinstance(arg, SYMBOLIC) else arg

    def _lowered(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        if node.target in VIEWS:
            self._keep_checks(node, args)
        if _in_loops(node) or (node.target in VIEWS and not _changes_dtype(node)):
            function = (BY_LIBRARY if node.name in self.left else LOWERINGS).get(node.target)
            if function is not None:
                result = function(self.builder, *args, **kwargs)
                if result is not NotImplemented:
                    return result
        return fallback(self.builder, node.target, args, kwargs)

    def _keep_checks(self, node: fx.Node, args: Any) -> None:
        """A view of a part leaves elements unread, and eager checks the positions of all."""
        base = args[0] if args else None
        if isinstance(base, TensorValue) and base.source.buffer is None and base.source.cost.checks:
            whole = numel(base)
            if not all(same(product(self.builder.sizes(t.size())), whole) for t in _tensors(node)):
                self.builder.realize(base)

    def _scalar_from_data(self, node: fx.Node) -> Any:
        """A Python number read from a tensor: an extern call that defines a symbol."""
        defines = node.meta.get("defines")
        (symbol,) = defines.values() if defines else expr_of(node.meta["val"]).free_symbols
        args = self.builder.extern_args(fx.node.map_aggregate(node.args, self._argument))
        kwargs = self.builder.extern_args(fx.node.map_aggregate(node.kwargs, self._argument))
        self.builder.program.operations.append(ExternOp((None,), node.target, args, kwargs, (node,), (symbol.name,)))
        value = node.meta["val"]
        return expr_of(value) if isinstance(value, SYMBOLIC) else value

    def _size_from_data(self, node: fx.Node, value: TensorValue, dim: int, symbol: sympy.Symbol) -> None:
        """A size that an extern call finds out defines a symbol."""
        buffer = value.source.buffer
        if buffer is None:
            raise NotImplementedError(f"a size that {node.target} finds in data, lowered to loops")
        operations = self.builder.program.operations
        if buffer.size[dim] == symbol:
            for at in range(len(operations) - 1, -1, -1):
                op = operations[at]
                if isinstance(op, ExternOp) and buffer.name in op.writes:
                    operations[at] = replace(op, scalar_writes=tuple(dict.fromkeys([*op.scalar_writes, symbol.name])))
                    return
        # By what was learnt later it is another expression, and whoever checks that has to know it as it was.
        whole = self.builder.strided(self.builder.in_memory(buffer))
        operations.append(ExternOp((None,), aten.sym_size.int, (whole, dim), {}, (node,), (symbol.name,)))

    def _promise(self, node: fx.Node) -> None:
        """A check at run time, in the symbols that it was made for: with what follows from it, it would hold for certain."""
        condition = node.meta["condition"]
        inputs = self.graph.find_nodes(op="placeholder")
        sizes: Any = (size for one in inputs for t in _tensors(one) for size in t.shape)
        env = next((size.node.env for size in sizes if isinstance(size, torch.SymInt)), None)
        if env is not None:  # sizes of inputs go by the names that the guards on them leave
            condition = condition.xreplace({s: env.simplify(s) for s in condition.free_symbols if s in env.hints})
        self.builder.program.operations.append(ExternOp((None,), node.target, (condition, *node.args[1:]), {}, (node,)))

    def _check(self, node: fx.Node, result: Any) -> None:
        """A lowering must give what eager gives; anything else is a bug to stop at."""
        fake = node.meta["val"]
        pairs = zip(result, fake, strict=True) if isinstance(fake, tuple | list) else [(result, fake)]
        for value, expected in pairs:
            if isinstance(expected, torch.Tensor):
                assert isinstance(value, TensorValue), f"{node.target} lowered to {type(value)}"
                assert value.dtype is expected.dtype, f"{node.target}: {value.dtype} is not {expected.dtype}"
                assert len(value.size) == expected.dim(), f"{node.target}: {value.size}, not {expected.size()}"

    def _settle(self, node: fx.Node, result: Any) -> None:
        """Give new pending values eager's strides, and put those in memory that several nodes would compute again."""
        fakes = node.meta["val"]
        values = result if isinstance(result, tuple | list) else [result]
        outs = fakes if isinstance(fakes, tuple | list) else [fakes]
        for value, fake in zip(values, outs, strict=True):
            if not isinstance(value, TensorValue) or value.source.buffer is not None:
                continue
            if not value.views and value.source.origins == (node,) and value.source.stride is None:
                stride = self.builder.sizes(fake.stride())
                if self.builder.is_dense(value.size, stride):
                    value.source.stride = stride
            if node.target not in VIEWS and self._belongs_in_memory(node, value.source):
                self.builder.realize(value)

    def _belongs_in_memory(self, node: fx.Node, source: Source) -> bool:
        cost = source.cost
        if cost.operations > MANY_OPERATIONS or len(cost.reads) > MANY_READS:
            return True
        readers = users(node)
        if len(readers) < 2 or not cost.reads:
            return False
        if any(user.op == "output" or user.target not in LOWERINGS for user in readers):
            return True
        if self._is_narrow_in_memory(source):
            return False
        if cost.operations == 1 and self._reads_beside(node) == 1:
            return cost.expensive > 0
        # What picks its rows many times each out of something much smaller is picked again.
        several = len(cost.reads) > 1 and counted_reads(self.builder, source) > 0
        return cost.expensive > 0 or cost.operations > 3 or several

    def _is_narrow_in_memory(self, source: Source) -> bool:
        """Whether a value is cheap and all that it is computed from is narrower, and together no larger: it is read once more in less
        time than the value is written and read. Half precision's float32 on the way is such, in the gradients of norms."""
        cost = source.cost
        if cost.expensive or cost.checks or cost.operations > FEW_OPERATIONS or len(cost.reads) > FEW_READS:
            return False
        width, size = source.dtype.itemsize, self.builder.hint(product(source.size))
        large = large_reads(self.builder, source)
        read = sum(self.builder.hint(product(each.size)) * each.dtype.itemsize for each in large)
        return 0 < read <= size * width and all(each.dtype.itemsize < width for each in large)

    def _reads_beside(self, node: fx.Node) -> int:
        """Values in memory that an element of a call's result needs, those left out that are the same for many elements."""
        size = self.builder.hint(product(self.builder.sizes(node.meta["val"].size()))) if is_tensor(node) else 0
        read = (self.env.get(one) for one in node.all_input_nodes)
        tensors = (value for value in read if isinstance(value, TensorValue))
        return sum(len(value.cost.reads) for value in tensors if self.builder.hint(numel(value)) * FEW > size)

    # Outputs

    def _outputs(self, node: fx.Node) -> None:
        self.builder.program.private_outputs = frozenset(node.meta.get("private", ()))
        self.builder.program.private_inputs = frozenset(node.meta.get("private_inputs", ()))
        flat = node.args[0]
        for at, arg in enumerate(flat if isinstance(flat, tuple | list) else [flat]):
            value = self._argument(arg)
            if isinstance(value, TensorValue):
                assert isinstance(arg, fx.Node)
                self.builder.node = arg
                given = self._written_input(at, value)
                if given is not None:
                    value = self._into(at, value, given)
                else:
                    if arg.op == "call_function" and arg.target not in VIEWS:
                        made = arg.meta["val"]  # what has memory of its own in eager has an element for each index
                        self.builder.apart.add((self.builder.sizes(made.size()), self.builder.sizes(made.stride())))
                    value = self._output(value, arg.meta["val"], any_layout=at in node.meta.get("writes", ()))
            self.builder.program.outputs.append(value)

    def _written_input(self, at: int, value: TensorValue) -> Buffer | None:
        """The input whose new content a result is, if it can be written there: as it lies, and no element of it twice."""
        if at not in self.writes:
            return None
        buffer = self.builder.program.buffers[self.inputs[self.writes[at]].name]
        return buffer if self._may_be_written(self.writes[at]) and is_as_large(buffer, value) else None

    def _may_be_written(self, position: int) -> bool:
        """Whether an input's memory holds its numbers themselves, and each by itself."""
        fake = self.inputs[position].meta["val"]
        if not isinstance(fake, torch.Tensor) or fake.is_conj() or fake.is_neg():
            return False
        return self.builder.is_injective(self.builder.sizes(fake.size()), self.builder.sizes(fake.stride()))

    def _into(self, at: int, value: TensorValue, given: Buffer) -> StridedView:
        """A result laid out as the input that it goes to."""
        source = value.source
        if source.buffer is None and not value.views:
            source.stride = given.stride
        view = self.builder.strided(value, given.stride, exact=True)
        if (view.size, view.stride, view.offset) == (given.size, given.stride, 0):
            self.builder.program.written[at] = given.name
        return view

    def _find_destinations(self) -> None:
        """Calls that change a few elements of an input, whose results, by others of the kind or at once, go to its memory."""
        results: Any = self.graph.output_node().args[0]
        for at, position in self.writes.items():
            calls, node = [], results[at]
            while isinstance(node, fx.Node) and node.op == "call_function" and node.args:
                calls.append(node)
                node = node.args[0]
            if node is self.inputs[position] and self._may_be_written(position):
                self.builder.destinations.update(dict.fromkeys(calls, self.inputs[position].name))

    def _output(self, value: TensorValue, fake: torch.Tensor, any_layout: bool = False) -> StridedView:
        """A result laid out as in eager, or nearly so where it is copied to an input anyway (`any_layout`)."""
        strides = self.builder.sizes(fake.stride())
        # Strides of dimensions of size 1, too: they lead nowhere, but a program can see them.
        view = self.builder.strided(value, strides, exact=not any_layout)
        known = () if any_layout else zip(view.stride, strides, value.size, strict=True)
        if not is_empty(value.size) and any(size != 1 and not agree(a, b, fake) for a, b, size in known):
            raise NotImplementedError(f"an output of {value.dtype} with strides {strides}")
        return view

    def _symbol_sources(self) -> None:
        """Find each symbol as a size or stride of an input, or in a size: of `2*s0 + 1` s0 can be told, too."""
        program = self.builder.program
        composed: list[tuple[Any, sympy.Symbol, Measure | None]] = [(*each, None) for each in self.composed]
        for name in program.inputs:
            if isinstance(name, str):
                for dim, size in enumerate(program.buffers[name].size):
                    if isinstance(size, sympy.Symbol):
                        program.symbols.setdefault(size, Measure(name, dim))
                    elif not size.is_Integer:
                        composed.append((size, sympy.Symbol(f"{name}_size{dim}", integer=True), Measure(name, dim)))
        for name in program.inputs:
            if isinstance(name, str):
                for dim, stride in enumerate(program.buffers[name].stride):
                    if isinstance(stride, sympy.Symbol):
                        program.symbols.setdefault(stride, Measure(name, dim, "stride"))
        for whole, given, place in composed:
            unknown = [symbol for symbol in whole.free_symbols if symbol not in program.symbols]
            if len(unknown) == 1 and (found := _solved(whole, unknown[0], given)) is not None:
                program.symbols.setdefault(given, place)
                program.symbols[unknown[0]] = found


def _solved(whole: Any, symbol: sympy.Symbol, value: sympy.Symbol) -> Any:
    """What `symbol` is where `whole`, an integer, is `value`; None unless it is a multiple of it and something."""
    rest = whole.xreplace({symbol: sympy.Integer(0)})
    factor = sympy.expand(whole - rest).coeff(symbol)
    if not (symbol.is_integer and factor.is_Integer and factor != 0):
        return None
    return FloorDiv(value - rest, factor) if sympy.expand(factor * symbol + rest - whole) == 0 else None


def is_as_large(buffer: Buffer, value: TensorValue) -> bool:
    """Whether a value could be all that is in a buffer."""
    same_place = (buffer.device, buffer.dtype) == (value.device, value.dtype)
    return same_place and len(buffer.size) == len(value.size) and all(map(same, buffer.size, value.size))


def _tensors(node: fx.Node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    return [v for v in values if isinstance(v, torch.Tensor)]


def _in_loops(node: fx.Node) -> bool:
    """Whether loops can hold all tensors of a call, each of which has elements, and its numbers."""
    tensors = [t for n in (node, *node.all_input_nodes) for t in _tensors(n)]
    return all(t.dtype in MEMORY_DTYPES and not t.is_meta for t in tensors) and complex not in map(
        type, (*node.args, *node.kwargs.values())
    )


def _changes_dtype(node: fx.Node) -> bool:
    dtypes = {t.dtype for n in (node, *node.all_input_nodes[:1]) for t in _tensors(n)}
    return len(dtypes) > 1


def _reads_data(node: fx.Node) -> bool:
    """Whether a symbolic number comes from a tensor's elements rather than from sizes."""
    name = str(node.target)
    return any(is_tensor(n) for n in node.all_input_nodes) and not name.startswith(
        ("aten.sym_size", "aten.sym_stride", "aten.sym_numel", "aten.sym_storage_offset")
    )


__all__ = ["lower", "multiplying"]
