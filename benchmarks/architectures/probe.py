"""One architecture in a process of its own: eager, then compiled, in inference and training, on each device asked for.

Flows in: a name and the cases. Flows out: one JSON-able record a case, as soon as it is known.
"""

from __future__ import annotations

import copy
import inspect
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from benchmarks.architectures import catalogue
from benchmarks.architectures.catalogue import Subject
from benchmarks.architectures.inputs import resized
from benchmarks.architectures.judge import Tensors, verdict

Case = tuple[str, str]
"""Device and "inference" or "training"."""


@dataclass
class Record:
    """What one contender made of one architecture in one case. `whole` is None where it raised."""

    name: str
    device: str
    mode: str
    contender: str
    status: str = "raised"
    """ "right", "wrong", "undecided", "raised"; "told": not eager's, but the program itself asks
    `torch.compiler.is_compiling()` and computes something else if so, in eager mode too; the sweep adds "timed out" and "died"; "not in eager" for the subject."""
    whole: bool | None = None
    graphs: int = 0
    breaks: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)
    outputs: str = ""
    gradients: str = ""
    seconds: float = 0.0
    """Of the first step: compilation and one run."""
    error: str = ""
    lengths: str = ""
    """How right calls with other lengths were, where any were asked for: as `outputs` says it."""
    graphs_of_lengths: int = 0
    """Graphs compiled for all lengths together."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Result:
    outputs: Tensors
    gradients: Tensors


def probe(
    name: str,
    cases: Sequence[Case],
    contenders: Sequence[str],
    report: Callable[[dict[str, Any]], None],
    lengths: Sequence[int] = (),
) -> None:
    """Run all cases, reporting a record a case and contender; after each, with inputs of as many tokens as `lengths` says."""
    warnings.simplefilter("ignore")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    try:
        subject = catalogue.build(name)
    except Exception as error:  # nothing to compare with
        for device, mode in cases:
            report(Record(name, device, mode, "eager", status="not in eager", error=str(error)[:1500]).as_json())
        return
    for device, mode in cases:
        try:
            eager, exact, quirk = references(subject, device, mode)
        except Exception as error:  # eager itself fails: a case without an oracle
            failed = Record(name, device, mode, "eager", status="not in eager", error=_told(error))
            report(failed.as_json())
            continue
        for contender in contenders:
            record = Record(name, device, mode, contender)
            runs, run = _compiled(record, subject)
            _judge(record, runs, [eager], exact)
            if record.status == "wrong" and exact is not None:
                _judge(record, runs, [eager, *moved(subject, device, mode)], exact)
            if record.status == "wrong" and _as_told(record, subject, runs[0]):
                record.status = "told"
            if quirk and record.status == "wrong":
                record.status, record.error = "undecided", quirk
            if run is not None and lengths:
                _other_lengths(record, subject, run, lengths)
            report(record.as_json())


def _other_lengths(record: Record, subject: Subject, run: Compiled, lengths: Sequence[int]) -> None:
    """Fill in what the compiled module makes of other lengths than it was compiled for: the worst of its answers."""
    answers = []
    for length in lengths:
        other = replace(subject, inputs=resized(subject.inputs, length))
        try:
            eager, exact, _ = references(other, record.device, record.mode)
        except Exception as error:  # the program takes no other length
            record.lengths = f"not in eager: {_told(error)[:200]}"
            return
        judged = Record(record.name, record.device, record.mode, record.contender)
        try:
            found = step(run.module, run.model, other, record.device, torch.float32, record.mode)
        except Exception as error:
            answers.append(f"raised at {length}: {_told(error)}")
            continue
        _judge(judged, [found], [eager], exact)
        if judged.status == "wrong" and exact is not None:
            _judge(judged, [found], [eager, *moved(other, record.device, record.mode)], exact)
        worst = next((a for a in (judged.outputs, judged.gradients) if a.startswith("wrong")), judged.status)
        answers.append(f"{worst} at {length}" if worst.startswith("wrong") else worst)
    record.lengths = next((a for a in answers if a.startswith(("raised", "wrong"))), answers[-1])
    run.facts(judged)
    record.graphs_of_lengths = judged.graphs


def _as_told(record: Record, subject: Subject, found: Result) -> bool:
    """Whether the program computes just this in eager mode too, once it is told that a compiler traces it."""
    from torch import compiler

    compiler._is_compiling_flag = True
    try:
        model = _placed(subject, record.device, torch.float32).train(record.mode == "training")
        told = step(model, model, subject, record.device, torch.float32, record.mode)
    except Exception:  # it cannot be told so in eager mode
        return False
    finally:
        compiler._is_compiling_flag = False
    return all(verdict(getattr(found, w), getattr(told, w), None).startswith("right") for w in ("outputs", "gradients"))


def references(subject: Subject, device: str, mode: str) -> tuple[Result, Result | None, str]:
    """Eager in float32 and, where the model runs so, float64; and why eager is no oracle here, if it is none."""
    model = _placed(subject, device, torch.float32).train(mode == "training")
    eager = step(model, model, subject, device, torch.float32, mode)
    again = step(model, model, subject, device, torch.float32, mode)
    quirk = ""
    if verdict(again.outputs, eager.outputs, None).startswith("wrong"):
        quirk = "eager gives other numbers at its second call"
    try:
        double = _placed(subject, device, torch.float64).train(mode == "training")
        exact = step(double, double, subject, device, torch.float64, mode)
    except Exception:  # a model with float32 written into it
        exact = None
    return eager, exact, quirk


def moved(subject: Subject, device: str, mode: str, count: int = 12) -> Iterator[Result]:
    """Eager in float32 with parameters and inputs moved by their rounding: what any other order of sums may give, too.

    One run says little about it: a gradient jumps where a value lies as near to a kink as rounding reaches.
    """
    draw = torch.Generator().manual_seed(4)

    def near(t: torch.Tensor) -> torch.Tensor:
        return t * (1 + 2**-24 * torch.randn(t.shape, generator=draw)) if t.is_floating_point() else t

    for _ in range(count):
        other = replace(
            subject, model=copy.deepcopy(subject.model), inputs={k: near(v) for k, v in subject.inputs.items()}
        )
        with torch.no_grad():
            for parameter in other.model.parameters():
                parameter.copy_(near(parameter))
        model = _placed(other, device, torch.float32).train(mode == "training")
        yield step(model, model, other, device, torch.float32, mode)


def step(run: Any, model: torch.nn.Module, subject: Subject, device: str, dtype: torch.dtype, mode: str) -> Result:
    """One step from the same seed: outputs, and in training the gradients of a random projection of the outputs."""
    inputs = {
        k: v.to(device, dtype) if v.is_floating_point() else v.to(device)
        for k, v in copy.deepcopy(subject.inputs).items()
    }
    model.zero_grad()
    torch.manual_seed(2)
    with torch.set_grad_enabled(mode == "training"):
        output = run(*inputs.values()) if subject.positional else run(**inputs)
        found = list(tensors_of(output))
        if mode == "training":
            loss = projection(found)
            if loss is None:
                raise RuntimeError("no output that requires a gradient")
            loss.backward()
    _synchronise(device)
    gradients = [p.grad for p in model.parameters()] if mode == "training" else []
    return Result([t.detach().clone() for t in found], [None if g is None else g.clone() for g in gradients])


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a model's output, in order; containers, dictionaries and caches are looked into."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_of(item)
    elif hasattr(value, "layers") and isinstance(value.layers, list):
        for layer in value.layers:
            yield from tensors_of([getattr(layer, "keys", None), getattr(layer, "values", None)])


def projection(outputs: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """A random direction of each output that has a gradient: no square, no mean that a normalisation makes constant."""
    draw = torch.Generator().manual_seed(3)
    parts = []
    for t in outputs:
        if t.requires_grad and t.is_floating_point() and t.numel():
            direction = torch.randn(t.shape, generator=draw, dtype=torch.float64).to(t)
            parts.append((t.nan_to_num(0.0, 0.0, 0.0) * direction).sum() / t.numel() ** 0.5)
    return torch.stack([p.to(parts[0].dtype) for p in parts]).sum() if parts else None


def _placed(subject: Subject, device: str, dtype: torch.dtype) -> torch.nn.Module:
    return copy.deepcopy(subject.model).to(device, dtype)


def _synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


@dataclass(frozen=True)
class Compiled:
    """A module and what a contender made of it."""

    model: torch.nn.Module
    module: Any
    facts: Callable[[Record], None]
    """Fills in what the capture says of itself so far."""


def _compiled(record: Record, subject: Subject) -> tuple[list[Result], Compiled | None]:
    """Two steps of a fresh compile, noting what the capture says of itself; none if it raised."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            model = _placed(subject, record.device, torch.float32).train(record.mode == "training")
            contender, _, backend = record.contender.partition(", ")
            run, facts = COMPILERS[contender](model, backend or "inductor")
            start = time.perf_counter()
            first = step(run, model, subject, record.device, torch.float32, record.mode)
            record.seconds = time.perf_counter() - start
            facts(record)
            second = step(run, model, subject, record.device, torch.float32, record.mode)
        except Exception as error:  # this is what the sweep looks for
            record.error = _told(error)
            return [], None
        finally:
            heard_of = [str(w.message)[:400] for w in heard]
            record.fallbacks = list(dict.fromkeys(m for m in heard_of if "capture failed" in m or "runs eagerly" in m))
    if record.fallbacks:
        record.whole = False
    return [first, second], Compiled(model, run, facts)


def _judge(record: Record, runs: Sequence[Result], eager: Sequence[Result], exact: Result | None) -> None:
    """Fill in how right the runs are, eager's error being the largest that it makes in its own runs."""
    if not runs:
        return
    answers = []
    for which in ("outputs", "gradients"):
        truth = None if exact is None else getattr(exact, which)
        theirs, *others = [getattr(r, which) for r in eager]
        found = [verdict(getattr(r, which), theirs, truth, others) for r in runs]
        answer = next((a for a in found if a.startswith("wrong")), found[-1])
        setattr(record, which, answer if theirs else "")
        answers.append(answer)
    record.status = next((s for s in ("wrong", "undecided") if any(a.startswith(s) for a in answers)), "right")


def _told(error: BaseException) -> str:
    """The exception and its innermost lines."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    chain = error
    causes = []
    while chain is not None and len(causes) < 4:
        causes.append(f"{type(chain).__name__}: {str(chain)[:500]}")
        chain = chain.__cause__  # type: ignore[assignment]
    where = " < ".join(f"{f.filename.rpartition('/')[2]}:{f.lineno} {f.name}" for f in reversed(frames))
    return " <- ".join(causes) + f" | {where}"


def _ours(model: torch.nn.Module, backend: str) -> tuple[Any, Callable[[Record], None]]:
    import meta

    # Where both draw random numbers they are to be the same ones.
    options = {"random": "eager"} if backend == "inductor" else None
    run: Any = meta.compile(model, backend=backend, options=options)

    def facts(record: Record) -> None:
        report = run.session.report
        record.graphs = report.graph_count
        record.breaks = list(dict.fromkeys(f"{b.reason}  # {b.user_line}"[:300] for b in report.breaks))
        record.skipped = list(dict.fromkeys(s[:300] for s in report.skipped))
        record.whole = not record.breaks and not record.skipped

    return run, facts


def _peer(model: torch.nn.Module, backend: str) -> tuple[Any, Callable[[Record], None]]:
    from torch._dynamo import config
    from torch._dynamo.utils import counters

    # Ours captures what depends on data without being told.
    config.capture_scalar_outputs = True
    config.capture_dynamic_output_shape_ops = True
    counters.clear()

    def facts(record: Record) -> None:
        record.graphs = int(counters["stats"].get("unique_graphs", 0))
        record.breaks = [str(reason)[:300] for reason in counters["graph_break"]]
        record.whole = not record.breaks and record.graphs == 1

    return torch.compile(model, backend=backend), facts


def _traced(model: torch.nn.Module, backend: str) -> tuple[Any, Callable[[Record], None]]:
    """`torch.jit.trace` of the first call, whose inputs it asks for."""
    traced: list[Any] = []

    def run(*args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        if not traced:
            made = torch.jit.trace(model, args or None, example_kwarg_inputs=kwargs or None, strict=False)
            traced.append(made)
        return traced[0](*args, **kwargs)

    return run, _in_one


def _scripted(model: torch.nn.Module, backend: str) -> tuple[Any, Callable[[Record], None]]:
    return torch.jit.script(model), _in_one


def _symbolic(model: torch.nn.Module, backend: str) -> tuple[Any, Callable[[Record], None]]:
    """`torch.fx.symbolic_trace`, told which arguments there are: what is not given keeps its default."""
    traced: list[Any] = []

    def run(*args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        if not traced:
            names = inspect.signature(model.forward).parameters
            given = {*list(names)[: len(args)], *kwargs}
            kept = {name: p.default for name, p in names.items() if name not in given and p.default is not p.empty}
            traced.append(torch.fx.symbolic_trace(model, concrete_args=kept))
        return traced[0](*args, **kwargs)

    return run, _in_one


def _in_one(record: Record) -> None:
    """It gives a graph, or it raises."""
    record.graphs, record.whole = 1, True


COMPILERS: dict[str, Callable[[torch.nn.Module, str], tuple[Any, Callable[[Record], None]]]] = {
    "ours": _ours,
    "torch.compile": _peer,
    "torch.jit.trace": _traced,
    "torch.jit.script": _scripted,
    "fx.symbolic_trace": _symbolic,
}
"""Contender: from a module and a backend's name the compiled module, and what to ask about the capture after its first call."""
