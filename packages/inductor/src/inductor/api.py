"""`compile_graph`: a functional ATen graph becomes a callable over generated kernels.

Flows in: an fx graph with fake values, and options. Flows out: `CompiledGraph`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from inductor import rates, rivals
from inductor.artefact import CompiledGraph, Stats
from inductor.backends import BackendOf, Devices, NoBackend
from inductor.cache import DiskCache
from inductor.cache.key import Surroundings, graph_key
from inductor.cache.sources import Uncacheable
from inductor.cache.tensors import Unstorable
from inductor.codegen.native import generate_native
from inductor.codegen.source import WrapperSource, module_text
from inductor.codegen.wrapper import generate, input_texts
from inductor.device import DeviceBackend, Keep, NativeBackend, PreparingBackend, ProductBackend
from inductor.emission import begin_products, emit, keeping
from inductor.host import HOST
from inductor.ir.program import LoopOp
from inductor.loading import SECTION, building, computing_on_the_host, stored_graph
from inductor.lower import Left, lower, multiplying, none_left
from inductor.lowerings import LOWERINGS
from inductor.lowerings.alignment import is_of_one_row, is_small_and_misaligned, leaves_misaligned
from inductor.lowerings.registry import READS_MEMORY, is_tensor
from inductor.options import Options
from inductor.parts import Parts
from inductor.passes import channels_last, draw_in_kernels, freeze, row_major, select, start_from_addends
from inductor.passes.freezing import eagerly
from inductor.regions import Compiler, Region
from inductor.schedule import ExternStep, Schedule, schedule
from inductor.stored import files_of
from symshapes import ambient, fixed_ambient, phase


def compile_graph(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options | None = None,
    *,
    backends: Mapping[str, DeviceBackend] | None = None,
) -> CompiledGraph:
    """Compile a functional ATen graph, or take it compiled from the disk cache.

    Args:
        graph_module: `call_function`s of `OpOverload`s, with fake values in `meta["val"]`; see `lower`.
        example_inputs: fake tensors, ints and SymInts, one a placeholder.
        backends: by device type, in place of the installed ones; then nothing is cached.

    Raises:
        NotImplementedError: for a graph that isn't functional or holds a layout that is not strided.
        BuildError: if a kernel's compiler fails.
        LookupError: if a device of the graph has no backend.
        InterpretedWarning: if filters make it an error and there are kernels that their device's backend cannot print.
    """
    with fixed_ambient(), computing_on_the_host():
        return _compile(graph_module, example_inputs, Options() if options is None else options, backends)


def prepare_graph(
    graph: fx.Graph,
    options: Options | None = None,
    *,
    backends: Mapping[str, DeviceBackend] | None = None,
    recorded: bool = False,
) -> None:
    """Rewrite a traced graph of inference, or of forward and backward together, before it is cut and compiled.

    Args:
        graph: as `compile_graph` takes it, and changed in place; its results stay, strides included, but for random numbers,
            which come from kernels of devices where `Options.random` or their traits say so.
        backends: by device type, in place of the installed ones.
        recorded: what is compiled becomes `replayed`.

    Raises:
        ValueError: `Options.random` is none of its values.
    """
    options = Options() if options is None else options
    if options.random not in (None, "kernel", "eager"):
        raise ValueError(f"unknown random {options.random!r}; it is 'kernel', 'eager' or None")
    traits = Devices(backends or {}, options.backends).traits
    with fixed_ambient(), computing_on_the_host():
        if options.random != "eager":
            chosen = options.random == "kernel"

            # What is replayed and what runs otherwise draws the same, by a launch.
            def told(device: torch.device) -> bool:
                return not recorded and traits(device).tells_state

            draw_in_kernels(graph, lambda device: chosen or traits(device).draws_in_kernels, told)
        start_from_addends(graph, traits)
        if options.channels_last:
            channels_last(graph, traits, LOWERINGS)
        row_major(graph, LOWERINGS, lambda node: node.target not in LOWERINGS or node.target in READS_MEMORY)


def fuses_attention(device: torch.device, dtype: torch.dtype, drops: bool, options: Options | None = None) -> bool:
    """Whether attention that a program writes out had better be torch's one-kernel attention, which torch has a kernel of for it.

    Args:
        drops: whether some of its weights are dropped, which that kernel draws by itself.
    """
    options = Options() if options is None else options
    traits = Devices({}, options.backends).traits(device)
    if drops and not (traits.draws_in_kernels if options.random is None else options.random == "kernel"):
        return False
    return dtype in traits.fused_attention if options.fuse_attention is None else options.fuse_attention


def _compile(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    backends: Mapping[str, DeviceBackend] | None,
) -> CompiledGraph:
    stats = Stats()
    devices = Devices(backends or {}, options.backends)
    built_by = building(options, devices)
    if options.freezing:
        with stats.phase("freeze"):
            graph_module, stats.frozen = freeze(graph_module)

    def make() -> Parts:
        for backend in _backends(graph_module, devices):
            if isinstance(backend, PreparingBackend):
                backend.prepare(compiling=True)
        return _make(graph_module, example_inputs, options, devices, stats, keep=keeping(options, devices))

    if not options.cache or backends:
        return CompiledGraph(make(), None, stats, built_by)
    cache = DiskCache(SECTION, options.cache_dir)
    try:
        with stats.phase("key"):
            key = _key(graph_module, example_inputs, options, devices)
    except Uncacheable as why:
        stats.cache = f"not cached: {why}"
        return CompiledGraph(make(), None, stats, built_by)
    found = _stored(cache, key, stats, graph_module, built_by)
    if found is not None:
        return found
    with cache.lock(key):
        found = _stored(cache, key, stats, graph_module, built_by)  # by a process that held the lock
        if found is not None:
            return found
        parts = make()
        folder = None
        with stats.phase("store"):
            try:
                folder = cache.put(key, files_of(parts, constants=not options.freezing)).folder
                stats.cache = "miss"
            except (Unstorable, OSError) as why:
                stats.cache = f"not cached: {why}"
    return CompiledGraph(parts, folder, stats, built_by)


def _key(graph_module: fx.GraphModule, example_inputs: Sequence[Any], options: Options, devices: Devices) -> str:
    """Of all that the graph's code depends on; raises as `graph_key`."""
    passes = select(options.disabled_passes)
    functions = (*passes.functions, *LOWERINGS.values())
    surroundings = Surroundings.of(ambient(), options, _backends(graph_module, devices), passes.names, functions)
    return graph_key(graph_module, example_inputs, surroundings)


def _stored(
    cache: DiskCache, key: str, stats: Stats, graph_module: fx.GraphModule, built_by: BackendOf
) -> CompiledGraph | None:
    # The graph's own tensors, of the same content as those stored with it.
    constants: dict[str, Any] = {
        node.name: functools.reduce(getattr, str(node.target).split("."), graph_module)
        for node in graph_module.graph.find_nodes(op="get_attr")
    }
    return stored_graph(cache, key, stats, built_by, constants)


def _backends(graph_module: fx.GraphModule, devices: Devices) -> Iterable[DeviceBackend]:
    """The backends of the graph's devices, as far as there are any."""
    types = {
        value.device.type
        for node in graph_module.graph.nodes
        for value in _flat(node.meta.get("val"))
        if isinstance(value, torch.Tensor)
    }
    for device_type in sorted(types):
        try:
            yield devices.backend(torch.device(device_type))
        except NoBackend:  # needed only if there is something to print for it
            continue


def _flat(value: Any) -> Iterable[Any]:
    return value if isinstance(value, tuple | list) else (value,)


def lowered(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    devices: Devices,
    stats: Stats | None = None,
    left: Left | None = None,
) -> Schedule:
    """What a graph becomes before code is generated; raises as `compile_graph`. `left`: see `lower`; without it as the options say."""
    stats = stats or Stats()
    traits = multiplying(devices.traits, options)
    if left is None and options.autotune is not False:
        left = functools.partial(_faster_by_library, options=options, devices=devices)
    if left is not None:
        left = _asked_once(left)
    writes: Mapping[int, int] = graph_module.graph.output_node().meta.get("writes", {})
    while True:
        with stats.phase("lower"):
            program = lower(graph_module, example_inputs, options, traits, left, writes)
            stats.rewrites = dict(program.rewrites)
        with stats.phase("schedule"):
            plan = schedule(program, options, lambda kernel: devices.backend(kernel.device).supports(kernel), traits)
        if plan.memory.written.keys() == writes.keys():
            return plan
        # What can't be computed in an input's memory is lowered as any other result.
        writes = {at: position for at, position in writes.items() if at in plan.memory.written}


def _asked_once(left: Left) -> Left:
    """The same answer each time that one graph is lowered: it may have been measured."""
    answers: list[Collection[str]] = []

    def ask(graph: fx.Graph) -> Collection[str]:
        if not answers:
            answers.append(left(graph))
        return answers[0]

    return ask


def _faster_by_library(graph: fx.Graph, options: Options, devices: Devices) -> frozenset[str]:
    """The calls of a graph that the library's kernels do faster on this machine, as it was measured."""
    each, given, options = options.autotune, options, replace(options, autotune=False)
    section = rivals.SECTION if each else rates.SECTION
    cache = DiskCache(section, options.cache_dir) if options.cache and not devices.given else None
    keep = keeping(given, devices)

    def compiled(region: Region, left: Left) -> CompiledGraph:
        stats = Stats()
        parts = _make(region.module, region.inputs, options, devices, stats, left, keep=keep)
        return CompiledGraph(parts, None, stats, building(options, devices))

    def own(region: Region) -> CompiledGraph | None:
        made = compiled(region, none_left)
        return None if made.stats.externs else made

    def key(region: Region) -> str | None:
        try:
            return _key(region.module, region.inputs, options, devices)
        except Uncacheable:
            return None

    def begin(region: Region) -> None:
        if keep and any(isinstance(backend, ProductBackend) for backend in _backends(region.module, devices)):
            plan = lowered(region.module, region.inputs, options, devices, Stats(), none_left)
            begin_products(plan, devices.backend, keep)

    compiler = Compiler(own, begin, functools.partial(compiled, left=rivals.all_rivals), key)
    with phase("autotune"), eagerly():
        if each:
            return rivals.faster_by_library(graph, compiler, cache, devices.traits)
        return rates.faster_by_library(graph, compiler, cache, multiplying(devices.traits, given))


def _with_misaligned(graph: fx.Graph, options: Options, devices: Devices) -> tuple[Options, Left | None]:
    """What a graph is compiled with, of which nothing is timed, if it has products of which it is known that the compiler's own kernels
    do them faster, by how rows lie: large ones that the library would make in rows of another length, and small ones that it takes
    longer to find a kernel for than to multiply. Other products are the library's, as they are in other graphs."""

    def is_own(node: fx.Node) -> bool:
        return leaves_misaligned(node, devices.traits) or is_small_and_misaligned(node, devices.traits)

    if not any(map(is_own, graph.nodes)):
        return options, None
    faster = functools.partial(_faster_by_library, options=options, devices=devices)

    def left(graph: fx.Graph) -> frozenset[str]:
        others = [node for node in graph.nodes if node.target in READS_MEMORY and is_tensor(node)]
        by_library = frozenset(
            node.name
            for node in others
            if devices.traits(node.meta["val"].device).multiplies_by_library
            and not is_own(node)
            and not is_of_one_row(node)  # a sum
        )
        # Small ones are not timed: the library's kernel would win where its call is not counted.
        large = any(leaves_misaligned(node, devices.traits) for node in others)
        return by_library.union(faster(graph) if large else ())

    return replace(options, autotune=False), left


def _make(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    devices: Devices,
    stats: Stats,
    left: Left | None = None,
    *,
    keep: Keep | None,
) -> Parts:
    if left is None and options.autotune is None:
        options, left = _with_misaligned(graph_module.graph, options, devices)
    plan = lowered(graph_module, example_inputs, options, devices, stats, left)
    program = plan.program
    with stats.phase("emit"):
        modules, interpreted = emit(plan, devices.backend, options.autotune is not None, keep)
    with stats.phase("wrap"):
        write = functools.partial(
            generate, plan, index_checks=options.index_checks, pool_memory=options.pool_memory, traits=devices.traits
        )
        wrapper = write()
        native = _native(plan, wrapper, devices) if options.native_wrapper else None
        checked = write(check=True).text
    return Parts(
        wrapper=wrapper,
        checked=None if checked == wrapper.text else checked,
        modules=modules,
        interpreted=interpreted,
        launches=plan.launches,
        externs=sum(isinstance(step, ExternStep) for step in plan.steps),
        loops=sum(isinstance(op, LoopOp) for op in program.operations),
        written=tuple(plan.memory.written),
        native=native,
    )


def _native(plan: Schedule, wrapper: WrapperSource, devices: Devices) -> tuple[str, str] | None:
    """The native wrapper of a graph on the CPU, and the Python that calls it; None where it can't be one."""
    try:
        backend = devices.backend(HOST)
        if not isinstance(backend, NativeBackend):
            return None
        text = generate_native(plan, backend.entry, backend.facts().get("isa", ""), {}, ahead=False).text
    except (NotImplementedError, NoBackend):
        return None
    names = [f"input{at}" for at in range(len(plan.program.inputs))]
    lines = [f"({', '.join(names)},) = args"] if names else []
    # Results by name: who takes these lines in takes the results apart.
    results = "".join(f"result{at}, " for at in range(len(plan.program.outputs))).strip()
    call = f"_native({', '.join((*names, *wrapper.constants))})"
    lines += ["args.clear()", f"({results}) = {call}" if results else call, f"return ({results})"]
    return text, module_text(len(plan.kernels), {}, lines, input_texts(plan.program))
