"""`python -m benchmarks --suite ablation ...`: what each optimisation is worth, by steps of models compiled without it.

The settings of one model are compiled and timed in turn in a process of its own, as in the suite `cpu`; ratios are to the step
with all optimisations, above 1 where one is worth something.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import Console
from rich.table import Table

from benchmarks.contenders import CONTENDERS
from benchmarks.cpu.child import Asked, Reading
from benchmarks.cpu.child import main as child
from benchmarks.cpu.models import MODELS
from benchmarks.cpu.table import in_a_process, ratio

ALL, MIN_CUT = "all", "with a min cut"
USUAL = ("resnet18", "mobilenetv3_small_100", "swin_tiny_patch4_window7_224", "bert", "gpt2", "graph_attention")


def nothing() -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Setting:
    """How a model is compiled: fields of `inductor.Options` and of `meta.Mode`, and variables of the environment.

    Fields are asked where they are used: our packages are imported by the process that compiles alone.
    """

    options: Callable[[], Mapping[str, Any]] = nothing
    mode: Callable[[], Mapping[str, Any]] = nothing
    environment: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, module: Any, options: Mapping[str, Any] | None = None) -> Callable[..., Any]:
        """The module compiled so, as a contender; `options` go before the setting's."""
        import capture
        import meta

        capture.config.on_error = "raise"
        mode = meta.Mode({**self.options(), **(options or {})}, **self.mode())
        run = meta.compile(module, backend=functools.partial(meta.backends.inductor, mode=mode))
        return self._in_its_environment(run) if self.environment else run

    def _in_its_environment(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """All calls, since the first one compiles; what this costs a call is nothing to a model's step."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with mock.patch.dict(os.environ, self.environment):
                return run(*args, **kwargs)

        return call


def without(**options: Any) -> Setting:
    return Setting(lambda: options)


def no_rewrites() -> dict[str, Any]:
    from inductor.passes import select

    return {"disabled_passes": select().names}


def min_cut() -> dict[str, Any]:
    import aotgrad

    return {"partitioner": aotgrad.partition_min_cut}


SETTINGS: dict[str, Setting] = {
    ALL: Setting(),
    "fusion": without(fuse=False),
    "horizontal fusion": without(horizontal=False),
    "channels last": without(channels_last=False),
    "memory reuse": without(reuse_memory=False),
    "in place": without(inplace=False),
    "split reductions": without(split_reductions=False),
    "rewrites of graphs and loops": Setting(no_rewrites),
    "vectors": Setting(environment={"CPU_CODEGEN_ISA": "scalar"}),
    "decompositions": Setting(mode=lambda: {"decompositions": dict}),
}
"""What each setting leaves out. `ALL` is what they are compared to."""
TRAINING = {MIN_CUT: Setting(mode=min_cut)}
"""Settings of training steps alone: what the default does not do."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks --suite ablation", description=__doc__)
    parser.add_argument("--model", action="append", choices=MODELS, help="may be repeated; a handful by default")
    parser.add_argument(
        "--without", action="append", choices=[*SETTINGS, *TRAINING], help="may be repeated; each by default"
    )
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--train", action="store_true", help="forward, loss and backward instead of inference")
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds of steps")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="compiled kernels are kept here")
    parser.add_argument("--json", type=Path, help="readings, a model a line; added to a file that exists")
    options = parser.parse_args(arguments)
    console = Console(width=max(150, Console().width))
    settings = options.without or [*SETTINGS, *(TRAINING if options.train else ())]
    readings = []
    for name in options.model or USUAL:
        asked = Asked(
            name,
            tuple(dict.fromkeys([ALL, *settings])),
            options.batch,
            options.train,
            rounds=options.rounds,
            threads=options.threads,
        )
        reading = in_a_process(asked, options.cache, __name__)
        readings.append(reading)
        for setting, why in reading.failed.items():
            console.print(f"{name}: {setting}: {why}", highlight=False)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(asdict(reading)) + "\n")
    console.print(table(readings))


def table(readings: Sequence[Reading]) -> Table:
    """A line a setting: the ratio of its step to the step with all, by model, and their geometric mean."""
    out = Table(
        "without", *(reading.asked.model for reading in readings), "geometric mean", title="step, to one with all"
    )
    for setting in dict.fromkeys(s for reading in readings for s in reading.asked.contenders if s != ALL):
        ratios = [ratio(reading, (setting, ALL)) for reading in readings]
        known = [r for r in ratios if not math.isnan(r)]
        mean = f"{statistics.geometric_mean(known):.3f}" if known else "-"
        out.add_row(setting, *(f"{r:.2f}" for r in ratios), mean)
    return out


if __name__ == "__main__":
    child({**CONTENDERS, **SETTINGS, **TRAINING})
