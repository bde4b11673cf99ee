"""The modes by name: each says how the compiler's parts are set together. Flows in: a name. Flows out: a `Mode`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import aotgrad
from inductor import Options
from symshapes import dataclass, fields_of, own_folders

own_folders([str(Path(__file__).parent)])  # here, since all of this package that compiles imports the modes


@dataclass(frozen=True)
class Mode:
    """One way to compile; what is left out is the default.

    Raises:
        ValueError: an option has no such name; the message lists those there are.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `inductor.Options`, by name; those given to `compile` go before."""
    partitioner: aotgrad.Partitioner | None = None
    """What of a training step's forward is saved for its backward, and what is computed again there; None: `aotgrad.partition_default`."""
    decompositions: Callable[[], Mapping[Any, Callable[..., Any]]] | None = None
    """Which operators are taken apart into simpler ones; asked at each compile. None: `aotgrad.core_decompositions`."""
    replay: bool = False
    """Whether what a graph of inference launches on a GPU is recorded once, and replayed by one call of the driver from then on."""

    def __post_init__(self) -> None:
        self.options_with(None)

    def table(self) -> Mapping[Any, Callable[..., Any]] | None:
        """The decompositions of this moment; None: aotgrad's."""
        return None if self.decompositions is None else self.decompositions()

    def options_with(self, given: Mapping[str, Any] | None) -> Options:
        """Inductor's options: the mode's, and `given` over them.

        Raises:
            ValueError: an option has no such name; the message lists those there are.
        """
        values = {**self.options, **ours(given or {})}
        valid = list(fields_of(Options))
        unknown = sorted(values.keys() - set(valid))
        if unknown:
            raise ValueError(f"unknown option {unknown[0]!r}; the options are {', '.join(valid)}")
        return Options(**values)


TORCH_OPTIONS: Mapping[str, Callable[[Any], Mapping[str, Any]]] = {
    "max_autotune": lambda value: {"autotune": value},
    "fallback_random": lambda value: {"random": "eager"} if value else {},
    "epilogue_fusion": lambda value: {},
    "shape_padding": lambda value: {},
    "trace.enabled": lambda value: {},
    "trace.graph_diagram": lambda value: {},
}
"""Options that programs give to `torch.compile`, and what they come to here: some of them to nothing, since they change no results."""


def ours(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with those of `torch.compile` replaced by what they come to."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        found.update(TORCH_OPTIONS[name](value) if name in TORCH_OPTIONS else {name: value})
    return found


MODES: dict[str, Mode] = {
    "default": Mode(),
    "reduce-overhead": Mode(replay=True),
    "max-autotune": Mode(options={"autotune": True}, replay=True),
    "max-autotune-no-cudagraphs": Mode(options={"autotune": True}),
}
"""What `compile(mode="...")` may name; without a name it is "default"."""


def mode_named(name: str | None) -> Mode:
    """The mode of that name; None is "default".

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    try:
        return MODES["default" if name is None else name]
    except KeyError:
        raise ValueError(f"unknown mode {name!r}; the modes are {', '.join(MODES)}") from None
