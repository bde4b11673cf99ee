"""Golden texts. `REWRITE_GOLDEN=1` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path


def golden(path: Path, text: str) -> None:
    """Assert that `text` is what the file holds."""
    text = text.rstrip("\n") + "\n"
    if os.environ.get("REWRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text, f"differs from {path}"
