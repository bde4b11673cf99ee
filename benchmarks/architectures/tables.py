"""The tables of a sweep: counts a device, mode and contender; what failed and what was not captured whole, by reason."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from rich.table import Table

STATUSES = ("right", "undecided", "told", "wrong", "raised", "timed out", "died", "out of memory", "not in eager")


def counts(records: list[dict[str, Any]]) -> Table:
    """A row a device, mode and contender."""
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    missing: Counter[tuple[str, str]] = Counter()
    for record in records:
        if record["contender"] == "eager":
            missing[record["device"], record["mode"]] += 1
        else:
            rows[record["device"], record["mode"], record["contender"]].append(record)
    out = Table(title="architectures")
    for heading in (
        "device",
        "mode",
        "contender",
        "run in eager",
        "whole",
        "one fallback or more",
        "gradients right",
        *STATUSES,
        "s",
    ):
        out.add_column(heading)
    for key in sorted(rows):
        here = rows[key]
        found = Counter(r["status"] for r in here)
        found["not in eager"] = missing[key[:2]]
        seconds = sorted(r["seconds"] for r in here if r["seconds"])
        out.add_row(
            *key,
            str(len(here)),
            str(sum(r["whole"] is True for r in here)),
            str(sum(bool(r["fallbacks"]) for r in here)),
            str(sum(r["gradients"].startswith("right") for r in here)) if key[1] == "training" else "-",
            *(str(found[s]) for s in STATUSES),
            f"{seconds[len(seconds) // 2]:.1f}" if seconds else "-",
        )
    return out


def rows(records: list[dict[str, Any]]) -> Table:
    """A row an architecture and contender: what became of it in each mode, in how many graphs, and why there are several."""
    modes = list(dict.fromkeys(r["mode"] for r in records))
    out = Table(title="status (graphs; of all lengths)")
    for heading in ("architecture", "contender", *modes, "breaks"):
        out.add_column(heading, overflow="fold")
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
    for record in records:
        found[record["name"], record["contender"]][record["mode"]] = record
    for (name, contender), by_mode in sorted(found.items()):
        reasons = [_class_of(b) for r in by_mode.values() for b in (*r["breaks"], *r["skipped"], *r["fallbacks"])]
        reasons += [r["error"][:160] for r in by_mode.values() if r["error"]]
        out.add_row(
            name.partition(":")[2],
            contender,
            *(_cell(by_mode[mode]) if mode in by_mode else "-" for mode in modes),
            "; ".join(dict.fromkeys(reasons)),
        )
    return out


CAPTURED: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
    ("whole and right", lambda r: r["whole"] is True and r["status"] in RIGHT and not _wrong_later(r)),
    ("in parts, right", lambda r: r["whole"] is False and r["status"] in RIGHT and not _wrong_later(r)),
    ("wrong, silently", lambda r: r["status"] == "wrong" or (r["status"] in RIGHT and _wrong_later(r))),
    ("raised", lambda r: r["status"] == "raised"),
    ("beyond the limits", lambda r: r["status"] in ("timed out", "died", "out of memory", "sweep over")),
)
RIGHT = ("right", "undecided", "told")


def _wrong_later(record: dict[str, Any]) -> bool:
    """Whether what was captured gives something else than eager for inputs of another length, without an error."""
    return str(record.get("lengths", "")).startswith("wrong")


def captures(records: list[dict[str, Any]], asked: int) -> str:
    """A page: a row a way to capture and mode, a column an outcome; each of those that run in eager mode is in one column.

    Of what not all were asked (models of another version, a sweep that was cut short) nothing is told.
    """
    tried: dict[str, set[str]] = defaultdict(set)
    for record in records:
        tried[record["name"]].add(record["contender"])
    everybody = set().union(*tried.values()) - {"eager"}
    shared = {name for name, contenders in tried.items() if contenders >= everybody}
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for record in records:
        if record["contender"] != "eager" and record["name"] in shared:
            outcome = next((name for name, holds in CAPTURED if holds(record)), "other")
            found[record["contender"].partition(", ")[0], record["mode"]][outcome] += 1
    headings = [name for name, _ in CAPTURED]
    tried_lengths = any(record.get("lengths") for record in records)
    at_lengths = ", at the inputs captured for and, where there are tokens, at other lengths" if tried_lengths else ""
    lines = [
        "# What captures what",
        "",
        f"Of {asked} architectures of transformers (tiny configurations), timm and torchvision (the smallest model of each family) the {len(shared)}",
        f"that run in eager mode by their configuration alone: results and gradients against eager's{at_lengths}. Graphs run with eager's kernels.",
        "`python -m benchmarks --suite architectures --backend eager --captures docs/captures.md` writes this page.",
        "",
        "| | mode | " + " | ".join(headings) + " |",
        "| --- | --- | " + " | ".join("---:" for _ in headings) + " |",
    ]
    for (contender, mode), counted in sorted(found.items(), key=lambda item: (item[0][1], -item[1][headings[0]])):
        total = sum(counted.values())
        cells = [f"{counted[name]} ({counted[name] / total:.0%})" for name in headings]
        lines.append(f"| {contender} | {mode} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(record: dict[str, Any]) -> str:
    text = f"{record['status']} ({record['graphs']}"
    if record.get("lengths"):
        text += f"; {record['graphs_of_lengths']}, {record['lengths'][:60]}"
    return text + ")"


def failures(records: list[dict[str, Any]]) -> Table:
    """Reasons, most frequent first, with an example each."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for record in records:
        if record["contender"] == "eager":
            continue
        where = f"{record['name']} {record['device']} {record['mode']} {record['contender']}"
        if record["status"] not in ("right", "undecided", "told"):
            groups[record["status"], _class_of(record["error"] or record["outputs"])].append(where)
        for kind in ("breaks", "skipped", "fallbacks"):
            for reason in record[kind]:
                groups[kind, _class_of(reason)].append(where)
    out = Table(title="by reason")
    for heading in ("what", "count", "reason", "for example"):
        out.add_column(heading)
    for (what, reason), places in sorted(groups.items(), key=lambda item: -len(item[1])):
        out.add_row(what, str(len(places)), reason, places[0])
    return out


def _class_of(reason: str) -> str:
    """The reason without the place and the numbers that differ from model to model."""
    reason = re.sub(r"\S*/(\w+\.py)", r"\1", reason.partition("  # ")[0])
    return re.sub(r"\d+(\.\d+)?(e-?\d+)?", "N", reason)[:160]
