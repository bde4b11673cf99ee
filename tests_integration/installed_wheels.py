"""Run by `nox -s wheels` in a bare environment: the six installed wheels are ours, of one version, and import.

`python -I installed_wheels.py VERSION [--without-torch]`; without torch only what needs none is looked at.
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
from importlib.metadata import distribution, entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

PACKAGES = ("symshapes", "capture", "aotgrad", "inductor", "cpu_codegen", "meta")
SITE = Path(sysconfig.get_path("platlib"))


def main(version: str, without_torch: bool) -> None:
    """Raises AssertionError where an installed package is not what was built."""
    for name in PACKAGES:
        found = distribution(name)
        assert found.version == version, f"{name} is {found.version}"
        spec = find_spec(name)
        assert spec is not None and Path(str(spec.origin)).is_relative_to(SITE), f"{name} lies at {spec}"
        assert any(str(file).endswith("py.typed") for file in found.files or ()), f"{name} is without py.typed"
    assert {each.name for each in entry_points(group="inductor.device_backends")} >= {"cpu", "cuda"}
    native = SITE / "capture" / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    loaded = spec_from_file_location("capture._native", native)
    assert loaded is not None and loaded.loader is not None
    loaded.loader.exec_module(module_from_spec(loaded))
    if without_torch:
        return
    for name in PACKAGES:
        importlib.import_module(name)
    import torch

    import meta

    x = torch.randn(8)
    assert torch.allclose(meta.compile(lambda v: (v + 1).sin(), fullgraph=True)(x), (x + 1).sin())
    print(f"{', '.join(PACKAGES)}: {version}, torch {torch.__version__}, CPython {sys.version.split()[0]}")


if __name__ == "__main__":
    main(sys.argv[1], "--without-torch" in sys.argv)
