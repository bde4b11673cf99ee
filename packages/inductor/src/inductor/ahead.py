"""`compile_ahead`: a functional ATen graph becomes one shared object that runs without the compiler and without Python.

Flows in: an fx graph with fake values, and which of its inputs are the model's weights. Flows out: `NativeGraph`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from inductor.api import lowered
from inductor.backends import Devices
from inductor.codegen.native import FOLDER, Inexpressible, Weight, generate_native, runtime_text
from inductor.device import NativeBackend
from inductor.host import HOST
from inductor.options import Options
from inductor.passes import freeze, hold
from symshapes import dataclass, fixed_ambient


@dataclass(frozen=True)
class NativeGraph:
    """A graph compiled ahead."""

    library: bytes
    """The shared object's content: ELF, with `meta_package_functions` of `meta_package.h` and `python_function(path, wrap)`."""
    weights: tuple[Weight, ...]
    """What the file has to hold where its footer says that the weights begin."""
    source: str
    """The C++ of the wrapper."""
    isa: str
    """The instruction set that kernels need."""
    identity: str
    """What the code is made of, as 64 hexadecimal digits: the file has to say the same, or is not run."""


def compile_ahead(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options | None = None,
    *,
    weights: Mapping[int, torch.Tensor],
    names: Sequence[str] = (),
    conditions: Sequence[tuple[Any, str]] = (),
) -> NativeGraph:
    """Compile a functional ATen graph to a shared object.

    Args:
        graph_module, example_inputs: as `compile_graph` takes them; all on the CPU.
        weights: inputs that are part of the model, by position; the rest is what a call brings, in order. With `Options.freezing`
            what follows from them alone is computed here, and held in their place.
        names: what messages call the inputs, by position.
        conditions: what has to hold of the sizes at every call, as expressions, each with its text.

    Raises:
        Inexpressible: the graph does what no native wrapper can; the message says what.
        BuildError: the compiler failed.
    """
    options = Options() if options is None else options
    with fixed_ambient():
        if options.freezing:
            graph_module, _ = freeze(hold(graph_module, weights))
            brought = [at for at in range(len(example_inputs)) if at not in weights]
            example_inputs, weights = [example_inputs[at] for at in brought], {}
            names = [names[at] for at in brought] if names else ()
        devices = Devices({}, options.backends)
        plan = lowered(graph_module, example_inputs, options, devices)
        backend = devices.backend(HOST)
        if not isinstance(backend, NativeBackend):
            raise Inexpressible(f"kernels of {type(backend).__name__}, which are no C functions")
        places = [place if isinstance(place, str) else str(place) for place in plan.program.inputs]
        isa = backend.facts().get("isa", "")
        written = generate_native(
            plan,
            backend.entry,
            isa,
            {places[at]: tensor for at, tensor in weights.items()},
            names=dict(zip(places, names, strict=False)),
            conditions=conditions,
        )
        sources = tuple(backend.emit(kernel) for kernel in plan.kernels)
        identity = hashlib.sha256(repr((sources, written.text)).encode()).hexdigest()
        told = f'extern "C" __attribute__((visibility("hidden"))) const char package_identity[] = "{identity}";\n'
        library = backend.build_shared(sources, (written.text, runtime_text(), told), FOLDER, Path.read_bytes)
        return NativeGraph(library, written.weights, written.text, isa, identity)
