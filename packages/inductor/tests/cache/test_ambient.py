"""Facts outside the graph: compilation reads them from one frozen value, and a stored graph is found only under equal ones."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from inductor_tracing import trace

import symshapes
from inductor import Options, ReferenceBackend, compile_graph, register_backend
from inductor import backends as backends_module
from symshapes import Ambient, ambient, fixed_ambient

AMBIENT = (
    "torch.get_default_dtype", "torch.get_default_device", "torch.get_num_threads", "torch.get_num_interop_threads",
    "torch.are_deterministic_algorithms_enabled", "torch.is_deterministic_algorithms_warn_only_enabled",
    "torch.get_deterministic_debug_mode", "torch.utils.deterministic", "torch.get_float32_matmul_precision",
    "torch.backends", "torch.version", "torch.__version__", "torch.__config__", "os.environ", "os.getenv",
    "os.cpu_count", "os.sched_getaffinity", "platform", "sys.platform", "sys.version",
)  # fmt: skip
"""What a compile may depend on without being told."""

ELSEWHERE = {
    "inductor/cache/place.py": "where the cache lies: no compiled code depends on it",
    "inductor/backends.py": "which backend serves a device: its class and what it reads are part of the key",
    "cpu_codegen/environment.py": "the one place of this backend that reads the environment; `facts` reports it",
    "cpu_codegen/launcher.py": "the launcher is compiled for this Python, which is in its own key",
}
ELSEWHERE["inductor/triton/binaries.py"] = "Triton's own settings, which are part of the key of what Triton compiles"
ELSEWHERE["inductor/triton/processes.py"] = (
    "how many processes compile, and what they inherit: the settings that `binaries.py` has in its key"
)


@pytest.fixture(autouse=True)
def reference_backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(backends_module, "_registered", {})
    register_backend(ReferenceBackend())
    yield


def _sources() -> Iterator[tuple[str, Path]]:
    """Name and place of each source file: those of this checkout, whatever is installed."""
    packages = Path(__file__).parents[3]
    for part, folder in (("inductor", ""), ("aotgrad", "decompositions"), ("cpu_codegen", "")):
        source = packages / part / "src"
        for path in (source / part / folder).rglob("*.py"):
            yield path.relative_to(source).as_posix(), path


def _read(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Dotted names in a module, with imported ones spelled out: line and name."""
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
                if alias.asname:
                    imported[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
                imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        words, at = [], node
        while isinstance(at, ast.Attribute):
            words.append(at.attr)
            at = at.value
        if isinstance(at, ast.Name):
            yield node.lineno, ".".join([imported.get(at.id, at.id), *reversed(words)])


def test_nothing_reads_ambient_facts_from_elsewhere() -> None:
    found = []
    looked_at = dict(_sources())
    assert looked_at.keys() > ELSEWHERE.keys()
    for place, path in looked_at.items():
        if place in ELSEWHERE:
            continue
        for line, name in set(_read(ast.parse(path.read_text()))):
            if any(name == banned or name.startswith(banned + ".") for banned in AMBIENT):
                found.append(f"{place}:{line}: {name}")
    assert not found, "read symshapes.ambient() (or a backend's facts) instead"


def test_the_check_sees_every_spelling() -> None:
    text = "import os as o\nfrom torch import get_num_threads as n\nimport torch\no.environ['A']\nn()\ntorch.backends.cudnn.enabled\n"
    names = {name for _, name in _read(ast.parse(text))}
    assert {"os.environ", "torch.get_num_threads", "torch.backends.cudnn.enabled"} <= names


def compiled(function, x, folder: Path, **options):
    graph, _ = trace(function, x)
    return compile_graph(graph, [x], Options(cache_dir=str(folder), **options))


def test_a_graph_of_another_default_dtype_is_not_taken(tmp_path: Path) -> None:
    """Whether 2**24 + 1 is above 2**24 depends on the dtype that a float among integers is compared in."""
    x = torch.tensor([2**24 + 1])

    def above(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.gt.Scalar(x, 2.0**24)

    results = []
    for dtype in (torch.float32, torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        try:
            graph = compiled(above, x, tmp_path)
            results.append(graph.stats.cache)
            assert torch.equal(graph([x])[0], above(x)), dtype
        finally:
            torch.set_default_dtype(torch.float32)
    assert results == ["miss", "miss", "hit"]


#: What it was: other tests of the process may have set it.
_PRECISION: list[str] = []


@pytest.mark.parametrize(
    ("change", "back"),
    [
        (lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False)),
        (
            lambda: torch.set_num_threads(torch.get_num_threads() + 1),
            lambda: torch.set_num_threads(torch.get_num_threads() - 1),
        ),
        (
            lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", False),
            lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", True),
        ),
        (
            # Not by `torch.backends.cudnn`: torch's own test helpers, where imported, forbid its setters for the process.
            lambda: torch._C._set_cudnn_deterministic(True),
            lambda: torch._C._set_cudnn_deterministic(False),
        ),
        (
            lambda: (
                _PRECISION.append(torch.backends.mkldnn.matmul.fp32_precision)
                or setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16")
            ),
            lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", _PRECISION.pop()),
        ),
        (lambda: torch.set_default_device("meta"), lambda: torch.set_default_device(None)),
    ],
    ids=["deterministic", "threads", "fill", "cudnn", "bf16 products", "default device"],
)
def test_each_fact_is_part_of_the_key(tmp_path: Path, change, back) -> None:
    x = torch.randn(4)
    assert compiled(torch.sin, x, tmp_path).stats.cache == "miss"
    before = Ambient.now()
    change()
    try:
        assert Ambient.now() != before
        assert compiled(torch.sin, x, tmp_path).stats.cache == "miss"
    finally:
        back()
    assert Ambient.now() == before
    assert compiled(torch.sin, x, tmp_path).stats.cache == "hit"


def test_what_a_backend_reads_is_part_of_the_key(tmp_path: Path) -> None:
    class Choosy(ReferenceBackend):
        compiler = "one"

        def facts(self):
            return {"compiler": self.compiler}

    backend = Choosy()
    register_backend(backend)
    x = torch.randn(4)
    assert compiled(torch.sin, x, tmp_path).stats.cache == "miss"
    backend.compiler = "another"
    assert compiled(torch.sin, x, tmp_path).stats.cache == "miss"
    backend.compiler = "one"
    assert compiled(torch.sin, x, tmp_path).stats.cache == "hit"


def test_a_compile_sees_the_facts_it_began_with() -> None:
    seen = []

    class Looking(ReferenceBackend):
        def emit(self, kernel):
            seen.append(ambient().default_dtype)
            torch.set_default_dtype(torch.float64)
            seen.append(ambient().default_dtype)
            return super().emit(kernel)

    graph, _ = trace(torch.sin, torch.randn(3))
    try:
        compile_graph(graph, [torch.randn(3)], backends={"cpu": Looking()})
    finally:
        torch.set_default_dtype(torch.float32)
    assert seen == [torch.float32, torch.float32]
    with fixed_ambient() as outer, fixed_ambient() as inner:
        assert outer is inner is symshapes.ambient()
