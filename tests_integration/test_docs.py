"""The documentation's examples run: the ```python blocks of a page one after the other, as one program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# CONTRIBUTING.md shows pieces of files of ours, not programs.
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("packages/*/README.md"))]
WITH_EXAMPLES = [page for page in PAGES if BLOCK.search(page.read_text())]


def program(page: Path) -> str:
    """The page's examples, each line where it stands in the page, so that a traceback names it."""
    lines = [""] * len(page.read_text().splitlines())
    text = page.read_text()
    for block in BLOCK.finditer(text):
        first = text[: block.start(1)].count("\n")
        body = block[1].splitlines()
        lines[first : first + len(body)] = body
    return "\n".join(lines)


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_CACHE_DIR", str(tmp_path))
    torch.manual_seed(0)
    namespace: dict[str, Any] = {"__name__": "__examples__"}
    exec(compile(program(page), str(page), "exec", dont_inherit=True), namespace)


@pytest.mark.parametrize("package", sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")))
def test_each_package_has_a_page_and_a_readme_with_examples(package: str) -> None:
    assert {ROOT / "docs" / "packages" / f"{package}.md", ROOT / "packages" / package / "README.md"} <= {*WITH_EXAMPLES}
