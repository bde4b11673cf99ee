"""Kernels as callables: their module's text is executed, and Triton compiles its functions at the first launches.

Flows in: a module's text and the kernels in it. Flows out: callables that launch them.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor.cache import DiskCache
from inductor.device import BuildError, JointKernel, JointSource, KernelCall, KernelSource
from inductor.ir.body import checks_positions
from inductor.triton import joint_launcher, launcher, native
from inductor.triton.blocks import read
from inductor.triton.choices import Choices, Plan
from inductor.triton.forms import HEADER, only_blocks
from inductor.triton.joint import Layout, words_of
from inductor.triton.machine import Figures, facts_of
from inductor.triton.mode import INTERPRETED
from inductor.triton.settled import Launches, with_words
from inductor.triton.tuning import SECTION, Group, Tuner
from symshapes import build_python

_loaded: weakref.WeakValueDictionary[tuple[str, str], Any] = weakref.WeakValueDictionary()
"""Kernels in use, by their module's digest and their name: what Triton compiled for one serves all."""


def load_kernels(text: str, names: Sequence[str]) -> dict[str, Any]:
    """Execute generated text and return these of its functions. No file is involved: Triton reads a kernel's source where
    `inspect` finds it, among the lines of generated text.

    Raises:
        BuildError: the text is no Python.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    known = {name: _loaded.get((digest, name)) for name in names}
    if all(function is not None for function in known.values()):
        return known
    listed = ", ".join(f"{name!r}: {name}" for name in names)
    try:
        found: dict[str, Any] = build_python(
            f"{text}\n\n_kernels = {{{listed}}}\n", {}, entry="_kernels", title="triton", path=f"<triton {digest}>"
        )
    except SyntaxError as error:
        raise BuildError(f"generated Triton source is not Python: {error}\n{text}") from error
    for name, function in found.items():
        function._inductor_text, function._inductor_module = digest, text  # what it is compiled from
        _loaded[digest, name] = function
    return found


def make_function(text: str, name: str) -> Any:
    """The function of a kernel's text."""
    return load_kernels(HEADER + text, [name])[name]


def make_timed(device: torch.device) -> Callable[[Choices], KernelCall] | None:
    """How kernels are called to be timed on a device; None where they are interpreted."""
    return None if INTERPRETED or not native.serves(device) else lambda choices: launcher.make_call(choices, None)


def build(
    module_text: str,
    sources: Sequence[KernelSource],
    number: torch.Tensor | None,
    figures: Figures | None,
    launches: Launches | None,
) -> dict[str, KernelCall]:
    """The kernels as callables.

    Args:
        number: what kernels write into that check positions.
        figures: where kernels are timed; None: none are.
        launches: where it is kept how they were launched in the end.
    """
    functions = load_kernels(module_text, [source.kernel.name for source in sources])
    group = None
    if figures is not None:
        group = Group(DiskCache(SECTION, figures.folder) if figures.cache else None, facts_of)
    return {
        source.kernel.name: _call(
            functions[source.kernel.name],
            source,
            number if checks_positions(source.kernel.body.ops) else None,
            group,
            launches,
        )
        for source in sources
    }


def _call(
    function: Any, source: KernelSource, number: torch.Tensor | None, group: Group | None, launches: Launches | None
) -> KernelCall:
    """A callable over the kernel's arguments."""
    kernel = source.kernel
    choices = Choices(kernel, function, make_function, only_blocks(source))
    if choices.points == 0:
        return lambda *args: None
    if choices.words or source.settings:  # who shares rows has one form, and a product was timed before, if at all
        group = None
    if INTERPRETED or not native.serves(kernel.device):
        interpreted = Interpreted(choices, number)
        if group is not None:
            return interpreted.tuned(group.tuner(choices, source.text, interpreted))
        return with_words(choices.words, kernel.device, interpreted.launch)
    tuner = None if group is None else group.tuner(choices, source.text, launcher.Trials(choices, number))
    plan = None if tuner is None else tuner.settled() or tuner.plan
    keep = None
    if launches is not None and choices.points is not None:
        keep = launches.keeper(source, choices, choices.plan if tuner is None else tuner.settled)
    return with_words(choices.words, kernel.device, launcher.make_call(choices, number, plan, keep))


def variants_again(
    module_text: str, number: torch.Tensor | None, source: KernelSource, blocks: str
) -> tuple[launcher.Variants, int]:
    """What compiles a kernel by these blocks (`Blocks.text`), for calls that differ from those that were known of; its form's number."""
    name = source.kernel.name
    choices = Choices(source.kernel, load_kernels(module_text, [name])[name], make_function, only_blocks(source))
    return launcher.Variants(choices, number), choices.form_of(read(blocks))


def build_joint(module_text: str, sources: Sequence[JointSource]) -> dict[str, KernelCall]:
    """Joint kernels as callables."""
    functions = load_kernels(module_text, [source.kernel.name for source in sources])
    return {source.kernel.name: _joint_call(functions[source.kernel.name], source.kernel) for source in sources}


class Interpreted:
    """Launches of a kernel by Triton's own means, with which its interpreter goes, too; see `tuning.Runner`."""

    failures: tuple[type[Exception], ...] = (RuntimeError,)

    def __init__(self, choices: Choices, check: torch.Tensor | None) -> None:
        self._choices = choices
        self._extra = () if check is None else (check,)
        self._sizes = [k for k, arg in enumerate(choices.kernel.args) if arg.role == "size"]

    def launch(self, *args: Any) -> None:
        """By the heuristics, or whatever was taken in their place."""
        self._run(self._choices.plan(*(args[k] for k in self._sizes)), args)

    def tuned(self, tuner: Tuner) -> KernelCall:
        """By what is fastest."""
        if tuner.settled():
            return self.launch
        return lambda *args: self._run(tuner.plan(*args), args)

    def begin(self, form: int, arguments: Sequence[Any] | None) -> None:
        """It is compiled by its first launch."""

    def call(self, form: int, plan: Plan) -> KernelCall:
        """What launches a form by a plan."""
        return lambda *args: self._run(plan, args)

    def busy(self) -> bool:
        """Nothing is recorded."""
        return False

    def _run(self, plan: Plan, args: Sequence[Any]) -> None:
        points, form, block = plan
        if points > 0:
            blocks = self._choices.blocks[form]
            programs = (-(-points // block),)
            options = {"XBLOCK": blocks.x, "RBLOCK": blocks.r, **blocks.options}
            self._choices.function(form)[programs](*args, *self._extra, **options)


def _joint_call(function: Any, kernel: JointKernel) -> KernelCall:
    """A callable over the arguments of all parts."""
    layout = Layout(kernel)
    grid = layout.grid()
    if not INTERPRETED and native.serves(kernel.device):
        return joint_launcher.make_call(function, layout, grid)
    sizes = [at for at, arg in enumerate(layout.args) if arg.role == "size"]

    def launch(*args: Any) -> None:
        starts, programs = grid(*(args[at] for at in sizes)) if callable(grid) else grid
        if programs > 0:
            words, aligned = words_of(layout, args, starts)
            table = torch.frombuffer(words, dtype=torch.int64).to(kernel.device)
            function[(programs,)](table, ALIGNED=aligned, num_warps=layout.warps)

    return launch
