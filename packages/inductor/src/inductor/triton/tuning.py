"""Which form of a kernel is the fastest: found when it is first launched, on the arguments of the launch, and kept on disk.

Flows in: `Choices`, what runs a form, and launches. Flows out: plans by the fastest blocks. What was timed once on a machine is
not even compiled again. In a graph that runs all kernels begin to compile at once; of one that never runs nothing is tried.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from inductor.cache import DiskCache
from inductor.cache.sources import Uncacheable, package_hash
from inductor.figures import kept, known
from inductor.passes.freezing import eagerly
from inductor.progress import Progress
from inductor.triton.blocks import Blocks
from inductor.triton.candidates import candidates
from inductor.triton.choices import Case, Choices, Plan
from inductor.triton.trials import repeatable, scratch, seconds

_log = logging.getLogger("inductor")

SECTION = "blocks"
"""Of the disk cache."""
WORTH = 0.97
"""Others have to be this much faster than what the heuristics say, which is as long as a clock errs."""
NEVER = 1e9
"""Seconds of what can't be run."""
MOST_CASES = 8
"""Sizes that one kernel is timed for; of others the heuristics decide."""

PROGRESS = Progress("timing kernels", "blocks")


class Runner(Protocol):
    """Compiles and launches forms of one kernel."""

    failures: tuple[type[Exception], ...]
    """What the first launch of a form raises that can't be compiled, or takes more than the device has."""

    def begin(self, form: int, arguments: Sequence[Any] | None) -> None:
        """Start to compile a form for these arguments; None: for those that are likely to come."""
        ...

    def call(self, form: int, plan: Plan) -> Callable[..., None]:
        """What launches a form by a plan."""
        ...

    def busy(self) -> bool:
        """Whether launches are being recorded, and none happens."""
        ...


class Tuner:
    """The plans of one kernel."""

    def __init__(self, choices: Choices, text: str, runner: Runner, group: Group) -> None:
        kernel = choices.kernel
        self.choices = choices
        self._runner, self._group = runner, group
        self._text = text.partition("@triton.jit")[2].replace(kernel.name, "kernel")
        self._types = repr([(arg.role, str(arg.dtype)) for arg in kernel.args])
        self._numbers = [at for at, arg in enumerate(kernel.args) if arg.role == "size"]
        self._lock = threading.Lock()
        self._tries = repeatable(kernel)
        self._waits = True
        """Nothing of it has begun."""
        self._counted = 0
        """Steps that the bar was told of, and which were not done yet."""
        if choices.points:
            self._case: Case | None = choices.case()
            group.waiting.append(weakref.ref(self))
        else:
            self._case = None

    def settled(self) -> Plan | None:
        """The plan of all launches, where that is known without timing anything."""
        if self._case is None:
            return None
        blocks = self._blocks(self._case)
        if len(blocks) > 1:
            key = self._key(self._case, blocks)
            figures = None if key is None else known(self._group.cache, key, len(blocks))
            if figures is None:
                return None
            self.choices.take(self._case, fastest(blocks, figures))
        self._waits = False
        return self.choices.plan()

    def plan(self, *arguments: Any) -> Plan:
        """The plan of a launch with these arguments; times forms where that was not done before."""
        numbers = [arguments[at] for at in self._numbers]
        case = self.choices.case(*numbers)
        if not self.choices.knows(case) and not self._runner.busy():
            with self._lock:
                if not self.choices.knows(case) and self.choices.cases < MOST_CASES:
                    self._tune(case, arguments)
        return self.choices.plan(*numbers)

    def begin(self) -> None:
        """Start to compile all that is to be timed, of a kernel of which all is known."""
        if self._case is None or not self._waits:
            return
        self._waits = False
        blocks = self._blocks(self._case)
        key = self._key(self._case, blocks)
        if len(blocks) == 1 or (key is not None and known(self._group.cache, key, len(blocks)) is not None):
            return
        for one in blocks:
            self._runner.begin(self.choices.form_of(one), None)
        self._counted = len(blocks)
        PROGRESS.more(self._counted)

    def _blocks(self, case: Case) -> list[Blocks]:
        return candidates(case, self.choices.reduces) if self._tries else [case.usual]

    def _tune(self, case: Case, arguments: Sequence[Any]) -> None:
        self._group.begin()
        blocks = self._blocks(case)
        best = blocks[0]
        if len(blocks) > 1:
            with eagerly():
                figures = kept(
                    self._group.cache,
                    self._key(case, blocks),
                    len(blocks),
                    lambda: self._timed(case, blocks, arguments),
                )
            if figures is not None:
                best = fastest(blocks, figures)
        PROGRESS.done(self._counted)
        self._counted = 0
        self.choices.take(case, best)

    def _timed(self, case: Case, blocks: Sequence[Blocks], arguments: Sequence[Any]) -> list[float] | None:
        """Seconds of a launch by each; None where there is no memory to try it in."""
        kernel = self.choices.kernel
        try:
            given = scratch(kernel, arguments)
        except torch.OutOfMemoryError:
            _log.info("no memory to time %s in", kernel.name)
            return None
        forms = [self.choices.form_of(one) for one in blocks]
        for form in forms:
            self._runner.begin(form, given)
        calls = [self._runner.call(form, self.choices.work(case.sizes, form)) for form in forms]
        if not self._counted:
            self._counted = len(blocks)
            PROGRESS.more(self._counted)
        running = []
        for at, call in enumerate(calls):
            if self._runs(call, given, blocks[at]):
                running.append(at)
            PROGRESS.done()
            self._counted -= 1
        found = [NEVER] * len(blocks)
        measured = seconds([lambda call=calls[at]: call(*given) for at in running], kernel.device)  # type: ignore[misc]
        for at, figure in zip(running, measured, strict=True):
            found[at] = figure
        return found

    def _runs(self, call: Callable[..., None], given: Sequence[Any], blocks: Blocks) -> bool:
        """Whether it can be compiled, and launched."""
        try:
            call(*given)
        except self._runner.failures as error:
            _log.info("%s does not run by %s: %s", self.choices.kernel.name, blocks, error)
            return False
        return True

    def _key(self, case: Case, blocks: Sequence[Blocks]) -> str | None:
        try:
            packages = package_hash("inductor")
        except Uncacheable:
            return None
        facts = self._group.facts(self.choices.kernel.device)
        return hashlib.sha256(repr((packages, facts, self._text, self._types, case, blocks)).encode()).hexdigest()


class Group:
    """The kernels of one graph.

    Args:
        facts: of a device, as far as kernels are faster or slower by it.
    """

    def __init__(self, cache: DiskCache | None, facts: Callable[[torch.device], tuple[str, ...]]) -> None:
        self.cache, self.facts = cache, facts
        self.waiting: list[weakref.ref[Tuner]] = []
        """Kernels of which all is known but what is fastest, in the order of their launches."""

    def tuner(self, choices: Choices, text: str, runner: Runner) -> Tuner:
        """Of one more kernel, printed as `text`."""
        return Tuner(choices, text, runner, self)

    def begin(self) -> None:
        """Start to compile what is to be timed of all of them: the graph runs."""
        waiting, self.waiting = self.waiting, []
        for reference in waiting:
            tuner = reference()
            if tuner is not None:
                tuner.begin()


def fastest(blocks: Sequence[Blocks], figures: Sequence[float]) -> Blocks:
    """The first ones, if none are faster by more than a clock errs."""
    least = min(figures)
    return blocks[0] if least >= WORTH * figures[0] else blocks[figures.index(least)]
