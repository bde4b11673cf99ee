"""A checkout as if it were installed: its packages on the path, their entry points where `importlib.metadata` looks, capture's native part built.

    export PYTHONPATH=$(python benchmarks/checkout.py FOLDER)

Flows in: a folder for the metadata. Flows out: what goes on the path, for machines that have neither network nor hatchling.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("symshapes", "capture", "aotgrad", "inductor", "cpu_codegen", "meta")


def as_installed(folder: Path) -> list[str]:
    """Build the native part for this interpreter, write each package's metadata into `folder`, and return the folders for the path."""
    subprocess.run(
        [sys.executable, str(ROOT / "packages/capture/hatch_build.py"), "--inplace"], check=True, stdout=sys.stderr
    )
    version = (ROOT / "VERSION").read_text().strip()
    for name in PACKAGES:
        told = tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())["project"]
        place = folder / f"{name}-{version}.dist-info"
        place.mkdir(parents=True, exist_ok=True)
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = []
        for group, entries in told.get("entry-points", {}).items():
            lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()), ""]
        (place / "entry_points.txt").write_text("\n".join(lines))
    return [str(ROOT), *(str(ROOT / "packages" / name / "src") for name in PACKAGES), str(folder)]


if __name__ == "__main__":
    print(os.pathsep.join(as_installed(Path(sys.argv[1]))))
