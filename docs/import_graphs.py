"""A hook of mkdocs: the page of import graphs, drawn from the sources, one picture a package.

Flows in: who imports whom, as grimp reads it (function-level and TYPE_CHECKING imports too). Flows out: a page with SVGs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grimp
import networkx
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PACKAGES = ("symshapes", "capture", "aotgrad", "inductor", "cpu_codegen", "meta")
ROW, HEIGHT, GAP, LETTER = 64, 26, 14, 7.4
WIDTH = 1000
INTRODUCTION = """# Import graphs

Who imports whom within each package: its modules, and its folders as a whole, each above what it imports. A line that follows
from others is left out. Drawn from the sources with this page; imports inside functions and for types only count like all others.
"""


def imports_of(package: str, depth: int | None) -> networkx.DiGraph:
    """From importer to imported: between modules, or with `depth` 1 the package's own modules and its folders as a whole.

    The package's `__init__` is left out, which imports them all.
    """
    graph = grimp.build_graph(package, cache_dir=None)
    found = networkx.DiGraph()
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            ends = [".".join(module.split(".")[1:][:depth]) for module in (importer, imported) if "." in module]
            found.add_nodes_from(ends)
            if len(ends) == 2 and ends[0] != ends[1]:
                found.add_edge(*ends)
    return found


def circles(imports: networkx.DiGraph) -> list[list[str]]:
    """Each set of modules that import each other, by name."""
    return [sorted(each) for each in networkx.strongly_connected_components(imports) if len(each) > 1]


def rows_of(groups: networkx.DiGraph) -> list[list[int]]:
    """Nodes of an acyclic graph in rows, each below all that import it, near to what it is connected with."""
    level: dict[int, int] = {}
    for node in networkx.topological_sort(groups):
        level[node] = 1 + max((level[importer] for importer in groups.predecessors(node)), default=-1)
    rows: list[list[int]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for node, at in level.items():
        rows[at].append(node)
    place: dict[int, float] = {}
    for row in rows:
        above = {node: [place[one] for one in groups.predecessors(node)] for node in row}
        row.sort(key=lambda node: sum(above[node]) / len(above[node]) if above[node] else 0.5)
        place.update({node: (index + 1) / (len(row) + 1) for index, node in enumerate(row)})
    return rows


def broken(rows: Iterable[list[int]], widths: dict[int, float]) -> list[list[int]]:
    """Rows too long for the picture in two or more."""
    lines: list[list[int]] = []
    for row in rows:
        lines.append([])
        used = 0.0
        for node in row:
            if used + widths[node] + GAP > WIDTH and lines[-1]:
                lines.append([])
                used = 0.0
            lines[-1].append(node)
            used += widths[node] + GAP
    return lines


def drawn(imports: networkx.DiGraph) -> str:
    """The graph as SVG; modules that import each other stand in one red box."""
    condensed = networkx.condensation(imports)
    groups = networkx.transitive_reduction(condensed)
    names = {node: sorted(condensed.nodes[node]["members"]) for node in condensed}
    widths = {node: LETTER * len(" ⇄ ".join(names[node])) + 18 for node in names}
    box: dict[int, tuple[float, float]] = {}
    lines = broken(rows_of(condensed), widths)
    for index, row in enumerate(lines):
        free = (WIDTH - sum(widths[node] for node in row)) / (len(row) + 1)
        x = free
        for node in row:
            box[node] = (x, 10 + index * ROW)
            x += widths[node] + free
    parts = []
    for importer, imported in groups.edges:
        (x, y), (to_x, to_y) = box[importer], box[imported]
        x, to_x, y = x + widths[importer] / 2, to_x + widths[imported] / 2, y + HEIGHT
        bend = (to_y - y) / 2
        curve = f"M{x:.0f} {y} C{x:.0f} {y + bend:.0f} {to_x:.0f} {to_y - bend:.0f} {to_x:.0f} {to_y}"
        parts.append(f'<path d="{curve}" fill="none" stroke="#8a94b8" stroke-width="1.2"/>')
    for node, (x, y) in box.items():
        fill, stroke = ("#ffe3e0", "#c0392b") if len(names[node]) > 1 else ("#eef2ff", "#4f5fb5")
        parts.append(
            f'<rect x="{x:.0f}" y="{y}" width="{widths[node]:.0f}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="{stroke}"/>'
            f'<text x="{x + widths[node] / 2:.0f}" y="{y + 17}" text-anchor="middle">{" ⇄ ".join(names[node])}</text>'
        )
    height = len(lines) * ROW - ROW + HEIGHT + 20
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
    return (
        f'{head} font-family="monospace" font-size="12" fill="#222">'
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#fff"/>{"".join(parts)}</svg>'
    )


def on_files(files: Files, config: Any) -> Files:
    """Called by mkdocs with the pages that it found."""
    sys.path[:0] = [str(ROOT / "packages" / name / "src") for name in PACKAGES]
    text = INTRODUCTION
    for package in PACKAGES:
        imports, modules = imports_of(package, 1), imports_of(package, None)
        told = "".join(
            f" In a circle, drawn red: {', '.join(f'`{name}`' for name in each)}." for each in circles(imports)
        )
        inside = sum(len(each) for each in circles(modules))
        told += f" Of its {len(modules)} single modules {inside or 'none'} stand in circles."
        text += f"\n## {package}\n\n{len(imports)} modules and folders.{told}\n\n{drawn(imports)}\n"
    files.append(File.generated(config, "imports.md", content=text))
    return files
