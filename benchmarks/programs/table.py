"""Programs under every contender, compared with eager: one table, and the readings as data."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.contenders import child_environment
from benchmarks.programs.child import PROGRAMS
from benchmarks.programs.values import difference

OURS, PEER, EAGER = "ours", "torch.compile", "eager"


@dataclass
class Outcome:
    """`verdict`: right, wrong (`why`: where it differs), raised (`why`: what), or left out (`why`: what it needs)."""

    program: str
    contender: str
    verdict: str
    why: str = ""
    graphs: int = 0
    breaks: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0


def outcomes(
    names: Sequence[str], contenders: Sequence[str], *, backend: str = "inductor", limit: int = 300, keep: Path | None
) -> Iterator[list[Outcome]]:
    """The outcomes of each program in turn, eager's first; `keep` holds results, output and tracebacks afterwards."""
    with tempfile.TemporaryDirectory() as scratch:
        root = keep or Path(scratch)
        servers = {c: _server(c, names, backend, limit, root) for c in dict.fromkeys([EAGER, *contenders])}
        for name in names:
            found = []
            for contender, server in servers.items():
                assert server.stdout is not None
                reading = json.loads(server.stdout.readline() or '{"status": "raised", "why": "the runner ended"}')
                found.append(_judged(name, contender, reading, root))
            yield found
        for server in servers.values():
            server.wait()


def _server(contender: str, names: Sequence[str], backend: str, limit: int, root: Path) -> subprocess.Popen[str]:
    folder = root / contender
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for old in folder.glob(f"{name}.*"):
            old.unlink()
    environment = {**child_environment(str(root / "caches")), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "benchmarks.programs.child", contender, backend, str(limit), str(folder), *names]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def _judged(name: str, contender: str, reading: dict[str, Any], root: Path) -> Outcome:
    made = Outcome(name, contender, "right", reading["why"], seconds=reading.get("seconds", 0.0))
    made.graphs, made.breaks, made.skipped = (
        reading.get(k, d) for k, d in (("graphs", 0), ("breaks", []), ("skipped", []))
    )
    if reading["status"] == "raised":
        made.verdict = "raised"
    elif contender != EAGER:
        wanted = root / EAGER / f"{name}.pt"
        if not wanted.exists():
            made.verdict, made.why = "raised", "eager raised"
        else:
            gap = difference(torch.load(wanted), torch.load(root / contender / f"{name}.pt"), PROGRAMS[name].tolerance)
            made.verdict, made.why = ("right", "") if gap is None else ("wrong", gap)
    return made


def _reasons(outcome: Outcome) -> str:
    texts = Counter(text.partition("  # ")[0] for text in [*outcome.breaks, *outcome.skipped])
    lines = [outcome.why, *(f"{text[:150]}" + (f" ({n}x)" if n > 1 else "") for text, n in texts.most_common(4))]
    return "\n".join(line[:220] for line in lines if line)


def table(rows: Sequence[Outcome]) -> Table:
    """One line a program, the contenders side by side."""
    out = Table(title="programs: result against eager; graphs, breaks and skipped frames with their reasons; seconds")
    headings = (
        "program",
        "eager s",
        "ours",
        "graphs",
        "breaks",
        "skipped",
        "s",
        "reasons",
        "peer",
        "graphs",
        "breaks",
        "s",
    )
    for heading in headings:
        out.add_column(heading, overflow="fold")
    by_name: dict[str, dict[str, Outcome]] = {}
    for row in rows:
        by_name.setdefault(row.program, {})[row.contender] = row
    missing = Outcome("", "", "-")
    for name, found in by_name.items():
        ours, peer, eager = (found.get(c, missing) for c in (OURS, PEER, EAGER))
        out.add_row(
            name,
            f"{eager.seconds:.1f}" if eager.verdict == "right" else f"{eager.verdict} {eager.why}",
            ours.verdict, str(ours.graphs), str(len(ours.breaks)), str(len(ours.skipped)), f"{ours.seconds:.1f}",
            _reasons(ours),
            peer.verdict, str(peer.graphs), str(len(peer.breaks)), f"{peer.seconds:.1f}",
        )  # fmt: skip
    return out


def show(names: Sequence[str], contenders: Sequence[str], console: Console, **options: Any) -> list[dict[str, Any]]:
    """Run, print the table and a line of totals; the readings as plain data."""
    here = [name for name in names if not PROGRAMS[name].missing]
    for name in names:
        if name not in here:
            console.print(f"{name}: left out, needs {' and '.join(PROGRAMS[name].missing)}")
    rows: list[Outcome] = []
    for found in outcomes(here, contenders, **options):
        rows += found
        console.print(
            "  ".join(f"{o.contender}: {o.verdict}" for o in found) + f"  {found[0].program}", highlight=False
        )
    console.print(table(rows))
    for contender in contenders:
        verdicts = Counter(o.verdict for o in rows if o.contender == contender)
        console.print(f"{contender}: " + ", ".join(f"{n} {v}" for v, n in verdicts.most_common()), highlight=False)
    return [asdict(row) for row in rows]
