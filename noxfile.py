"""Developer sessions: `nox -l` lists them. Every session installs all it needs into an environment of its own."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["tests", "lint", "types"]
nox.options.reuse_existing_virtualenvs = True

ROOT = Path(__file__).parent
PACKAGES = ("symshapes", "capture", "aotgrad", "inductor", "cpu_codegen", "meta")
TORCH = "torch==2.13.0"
TORCH_312 = "torch==2.11.0"
VERSION = (ROOT / "VERSION").read_text().strip()
TEST_TOOLS = (
    "pytest>=8",
    "pytest-timeout",
    "pytest-xdist",
    "expecttest",
    "hypothesis>=6.100",
    "numpy",
    "greenlet",
    "gevent",
    "hatchling>=1.24",
)
LIBRARIES = (
    "peft", "accelerate", "diffusers", "lightning", "pytorch-lightning", "torch_geometric", "einops", "kornia",
    "torchmetrics",
)  # fmt: skip


ON_ONE_PYTHON = (
    "packages/aotgrad/tests/decompositions",
    "packages/capture/tests/arrays",
    "packages/capture/tests/evaluator/test_operator_methods.py",
    "packages/capture/tests/fuzz",
    "packages/cpu_codegen/tests",
    "packages/symshapes/tests/rules",
    *(f"packages/inductor/tests/{part}" for part in ("cache", "codegen", "lowerings", "passes", "schedule")),
    *(f"tests_integration/test_{name}.py" for name in (
        "almost_attention", "attention", "channels_last", "columns", "complex", "cpu_benchmark", "docs", "dynamic_rows", "flex_attention",
        "freezing", "indices", "ir_text", "killed", "lost_views", "model_sizes", "native_wrapper", "number_ranges", "numpy_backend", "operators",
        "optimizers", "package", "pooled_memory", "random", "random_indices", "random_shapes", "recurrent", "running_products", "scans", "size_floats", "sizes_of_one",
        "training_memory", "training_patterns", "uncounted_rows", "written_attention", "written_inputs",
    )),
)  # fmt: skip
"""Tests that take long, of what neither bytecode nor torch's version changes much: single operators, kernels and schedules of loops written by hand,
files on disk, programs of few operators at many sizes; random programs, of which `fuzz` runs thousands."""
ON_THE_OTHER = tuple(
    f"tests_integration/test_{name}.py"
    for name in (
        "architectures",
        "beside_torch_compile",
        "caches",
        "generate",
        "gradient_checkpointing",
        "models",
        "one_compile",
    )
)
"""The same of whole models, for whose libraries the older torch is: on CPython 3.12 alone."""


def install_packages(session: nox.Session, *names: str, torch: str) -> None:
    """Torch first and pinned, so that no package pulls another; then the distributions in dependency order."""
    session.install(torch)
    paths = [f"./packages/{name}" for name in names or PACKAGES]
    session.install(*paths)


def run_tests(session: nox.Session, *options: str) -> None:
    """Each part's own tests, then the parts together."""
    asked = session.posargs or ["packages", "tests_integration"]
    session.run("pytest", "-n", "auto", "--dist", "worksteal", "--timeout=600", *options, *asked)


@nox.session
def quickstart(session: nox.Session) -> None:
    """Install everything and compile a real model; prints times, differences, graphs and where the C++ lies."""
    install_packages(session, torch=TORCH)
    session.install("transformers>=4.50")
    session.run("python", "docs/quickstart.py")


@nox.session
def tests(session: nox.Session) -> None:
    """Tests on this interpreter with the newest torch supported: all but `ON_THE_OTHER`, unless others are asked for."""
    install_packages(session, torch=TORCH)
    session.install(*TEST_TOOLS, "transformers>=4.50")
    run_tests(session, *(() if session.posargs else (f"--ignore={path}" for path in ON_THE_OTHER)))


@nox.session(name="tests-3.12", python="3.12")
def tests_312(session: nox.Session) -> None:
    """Tests on CPython 3.12 with the oldest torch supported, its torchvision, timm and Triton: all but `ON_ONE_PYTHON`, and but for models without
    the backend `aot_eager`, whose every step is one of inductor's, and bfloat16, which decides in no step that a Python or torch has a part in."""
    install_packages(session, torch=TORCH_312)
    session.install(*TEST_TOOLS, "transformers>=4.50", "torchvision==0.26.0", "timm>=1.0")
    chosen = "test_models or not (aot_eager or bfloat16)"
    run_tests(session, "-k", chosen, *(f"--ignore={path}" for path in ON_ONE_PYTHON))


def run_capture_tests(session: nox.Session) -> None:
    """capture's own tests: no other part depends on bytecode or on the inside of the interpreter. Random programs are `fuzz`'s."""
    install_packages(session, "symshapes", "capture", torch=TORCH_312)
    session.install(*TEST_TOOLS)
    asked = session.posargs or ["packages/capture/tests", "--ignore=packages/capture/tests/fuzz"]
    session.run("pytest", "-n", "auto", "--timeout=600", *asked)


@nox.session(name="tests-3.13", python="3.13")
def tests_313(session: nox.Session) -> None:
    """capture's own tests on CPython 3.13."""
    run_capture_tests(session)


@nox.session(name="tests-3.14", python="3.14")
def tests_314(session: nox.Session) -> None:
    """capture's own tests on CPython 3.14."""
    run_capture_tests(session)


@nox.session
@nox.parametrize("part", ["capture", "aotgrad", "inductor"])
def standalone(session: nox.Session, part: str) -> None:
    """Each part taken alone, in an environment that holds only what it declares."""
    siblings = {"capture": ["symshapes"], "aotgrad": ["symshapes"], "inductor": ["symshapes", "aotgrad"]}[part]
    install_packages(session, *siblings, part, torch=TORCH)
    session.run("python", f"docs/standalone/{part}_alone.py")


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def wheels(session: nox.Session) -> None:
    """Build every distribution into dist/, each wheel from its source distribution; install and import them from there alone."""
    session.install("build")
    wheelhouse = ROOT / "dist"
    for old in wheelhouse.glob("*"):
        # Other interpreters' wheels of this version stay: capture has one for each.
        if f"-{VERSION}" not in old.name:
            old.unlink()
    for name in PACKAGES:
        session.run("python", "-m", "build", "--outdir", str(wheelhouse), f"packages/{name}", silent=True)
    for name in ("capture", "inductor", "meta"):  # names that others have on PyPI: no index has our version
        pin = f"{name}=={VERSION}"
        session.run("pip", "download", "--no-deps", "--dest", session.create_tmp(), pin, success_codes=[1], silent=True)
    bare = Path(session.create_tmp()) / "bare"
    session.run("python", "-m", "venv", "--clear", str(bare))
    python, ours = str(bare / "bin" / "python"), ["--no-index", f"--find-links={wheelhouse}"]
    if "--without-torch" in session.posargs:
        session.run(python, "-m", "pip", "install", *ours, "--no-deps", *PACKAGES, external=True)
    else:
        torch = TORCH if session.python == "3.11" else TORCH_312
        session.run(python, "-m", "pip", "install", "--quiet", torch, external=True)
        session.run(python, "-m", "pip", "install", *ours, "meta", external=True)
        session.run(python, "-m", "pip", "check", external=True)
    script = "tests_integration/installed_wheels.py"
    session.run(python, "-I", script, VERSION, *session.posargs, external=True)


@nox.session
def coverage(session: nox.Session) -> None:
    """What the tests run of our Python, line by line and branch by branch: a table, and htmlcov/ to look at."""
    install_packages(session, torch=TORCH)
    session.install(*TEST_TOOLS, "pytest-cov", "transformers>=4.50")
    report = ["--cov", "--cov-report=term:skip-covered", "--cov-report=html"]
    run_tests(session, *report)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation's site into site/; a link to nowhere fails. `nox -s docs -- serve` shows it while it is written."""
    session.install("mkdocs-material>=9.6", "mkdocstrings[python]>=1.0", "ruff", "grimp", "networkx")
    # Docstrings are read from the sources: none of the packages is installed, nor torch.
    env = {"NO_MKDOCS_2_WARNING": "1"}
    session.run("mkdocs", *(session.posargs or ["build", "--strict", "--clean"]), env=env)


@nox.session
def lint(session: nox.Session) -> None:
    """What .pre-commit-config.yaml asks for, over all files; and the arrows between the packages."""
    session.install("pre-commit>=4", "import-linter>=2.1")
    # A checkout that another user made, as in a container, is git's to distrust: this one is named.
    trust = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": str(ROOT)}
    session.run("pre-commit", "run", "--all-files", "--show-diff-on-failure", env=trust)
    env = {"PYTHONPATH": os.pathsep.join(str(ROOT / "packages" / name / "src") for name in PACKAGES)}
    session.run("lint-imports", env=env)


@nox.session
def types(session: nox.Session) -> None:
    """mypy strict on every package, with torch's own annotations."""
    session.install(TORCH, "mypy>=1.13", "numpy", "sympy>=1.13", "filelock>=3.12", "hatchling>=1.24")
    session.run("mypy", *(f"packages/{name}/src" for name in PACKAGES))


@nox.session(python="3.12")
def bench(session: nox.Session) -> None:
    """Ours, torch.compile and eager in one table: `nox -s bench -- --suite models --json out.json`."""
    install_packages(session, torch=TORCH_312)
    session.install("torchvision==0.26.0", "timm>=1.0", "transformers>=4.50", "scipy", "rich", "psutil", "expecttest")
    if "programs" in session.posargs:
        # Torch is named again, so that none of the libraries pulls another.
        session.install(TORCH_312, *LIBRARIES)
    session.run("python", "-m", "benchmarks", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """A million calls and a thousand compiles that are dropped: memory stays flat."""
    install_packages(session, torch=TORCH)
    session.install("psutil")
    session.run("python", "-m", "benchmarks.soak", *session.posargs)


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def fuzz(session: nox.Session) -> None:
    """20,000 random programs over a random state, changed at random between calls, as many over random shapes and half as many over positions, and written-out ones with breaks anywhere: `nox -s fuzz -- --seed 7 --examples 500`."""
    install_packages(session, torch=TORCH if session.python == "3.11" else TORCH_312)
    session.install(*TEST_TOOLS)
    asked = dict(zip(session.posargs[::2], session.posargs[1::2], strict=True))
    seed = asked.get("--seed", str(secrets.randbelow(10**6)))
    session.log(f"seed {seed}: what fails with it fails again with `--seed {seed}`")
    examples = asked.get("--examples", "20000")
    env = {"FUZZ_EXAMPLES": examples, "FUZZ_SHARDS": "40", "FUZZ_SEED": seed}
    tests = (
        "packages/capture/tests/fuzz",
        "tests_integration/test_random_shapes.py",
        "tests_integration/test_random_indices.py",
    )
    session.run("pytest", "-n", "auto", *tests, env=env)


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def cpython(session: nox.Session) -> None:
    """CPython's own tests of the language, each method compiled: same outcome as plain; 20 to 30 minutes. `nox -s cpython -- test_dict` runs one module."""
    install_packages(session, "symshapes", "capture", torch=TORCH if session.python == "3.11" else TORCH_312)
    session.run("python", "packages/capture/tests/cpython/outcomes.py", *session.posargs)


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def sanitizers(session: nox.Session) -> None:
    """capture's native tests on an extension built with the address and undefined-behaviour sanitizers (gcc)."""
    install_packages(session, "symshapes", torch=TORCH if session.python == "3.11" else TORCH_312)
    checks = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
    session.install("./packages/capture", env={"CFLAGS": checks})
    session.install(*TEST_TOOLS)
    libraries = [
        str(session.run("gcc", f"-print-file-name={name}", external=True, silent=True)).strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    env = {"LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    # greenlet copies stretches of the C stack, which the address sanitizer takes for overflows.
    tests = ["packages/capture/tests/native", "--ignore=packages/capture/tests/native/test_greenlets.py"]
    session.run("pytest", "-s", *(session.posargs or tests), env=env)
