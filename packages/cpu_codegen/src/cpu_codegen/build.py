"""From C++ text to loaded functions: compiler discovery, flags, the disk cache.

Flows in: source text. Flows out: paths of shared objects, named by the hash of all that went into them, so that every
process compiles a text once.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from cpu_codegen._torch import openmp_runtime
from cpu_codegen.cpu_info import Isa
from inductor.device import BuildError

INCLUDE = Path(__file__).parent / "include"

FLAGS: tuple[str, ...] = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    # Exact IEEE arithmetic: eager neither contracts a * b + c nor reorders, and NaN and infinities mean what they say.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    "-fvisibility=hidden",
    "-w",
)


def cache_directory() -> Path:
    """Where built objects are kept: `$INDUCTOR_CACHE_DIR`, else the user's cache directory."""
    root = os.environ.get("INDUCTOR_CACHE_DIR")
    if root:
        return Path(root) / "cpu"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "inductor" / "cpu"


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: how to call it, and what it says of itself."""

    command: tuple[str, ...]
    version: str
    openmp: bool
    """Whether it compiles `-fopenmp` and there is a runtime to link."""


def find_compiler() -> Compiler:
    """`$CXX`, else the first of g++, c++ and clang++ on the path.

    Raises:
        BuildError: there is none, or it does not run.
    """
    return _compiler(os.environ.get("CXX"), os.environ.get("PATH"))


@functools.lru_cache(maxsize=8)
def _compiler(chosen: str | None, path: str | None) -> Compiler:
    if chosen:
        command = tuple(shlex.split(chosen))
    else:
        found = next((c for c in ("g++", "c++", "clang++") if shutil.which(c, path=path)), None)
        if found is None:
            raise BuildError(
                "no C++ compiler found: install g++ or clang++ (apt-get install g++, dnf install gcc-c++), "
                "or name one in $CXX"
            )
        command = (found,)
    try:
        shown = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        detail = error.stderr if isinstance(error, subprocess.CalledProcessError) else error
        raise BuildError(
            f"the C++ compiler {shlex.join(command)!r} does not run: {detail}; install g++ or clang++, or correct $CXX"
        ) from error
    return Compiler(command, shown.stdout.strip(), _has_openmp(command))


def _has_openmp(command: tuple[str, ...]) -> bool:
    program = 'extern "C" int omp_get_max_threads(); int f() { int n = 0;\n#pragma omp parallel\nn = omp_get_max_threads();\nreturn n; }\n'
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "probe.cpp"
        source.write_text(program)
        tried = subprocess.run(
            [
                *command,
                "-fPIC",
                "-shared",
                "-Wl,-z,defs",
                str(source),
                "-o",
                str(source.with_suffix(".so")),
                *_openmp_flags(),
            ],
            capture_output=True,
        )
    return tried.returncode == 0


def _openmp_flags() -> tuple[str, ...]:
    """Link torch's own runtime by its path where it is known: one pool of threads, one `torch.set_num_threads`."""
    runtime = openmp_runtime()
    return ("-fopenmp",) if runtime is None else ("-fopenmp", runtime)


def compile_command(compiler: Compiler, isa: Isa) -> tuple[str, ...]:
    """The command that compiles a kernel file, without source and output."""
    return (*compiler.command, *FLAGS, *isa.flags, f"-DVECTOR_BYTES={isa.vector_bytes}", f"-I{INCLUDE}")


@functools.cache
def headers_digest() -> str:
    """Hash of all that a kernel file includes."""
    digest = hashlib.sha256()
    for header in sorted(INCLUDE.glob("*.h")):
        digest.update(header.read_bytes())
    return digest.hexdigest()


def build_kernels(text: str, isa: Isa) -> Path:
    """The shared object of a kernel file, compiled if the cache does not hold it. The source lies beside it.

    Raises:
        BuildError: with the compiler's output and the source's path.
    """
    compiler = find_compiler()
    command = (*compile_command(compiler, isa), "-shared")
    link = _openmp_flags() if compiler.openmp else ()
    return build(text, ".cpp", command, link, key=(compiler.version, headers_digest()))


def build(text: str, suffix: str, command: Sequence[str], link: Sequence[str], key: Sequence[str]) -> Path:
    """Compile `text` with `command` into the cache; two processes at once compile it once.

    Raises:
        BuildError: with the compiler's output and the source's path.
    """
    digest = hashlib.sha256("\0".join([text, suffix, *command, *link, *key]).encode()).hexdigest()[:32]
    directory = cache_directory() / digest[:2]
    target = directory / f"{digest}.so"
    if target.exists():
        return target
    directory.mkdir(parents=True, exist_ok=True)
    with FileLock(directory / f"{digest}.lock"):
        if target.exists():
            return target
        source = target.with_suffix(suffix)
        _write(source, text)
        unfinished = directory / f"{digest}.{os.getpid()}.tmp"
        full = [*command, str(source), "-o", str(unfinished), *link]
        try:
            run = subprocess.run(full, capture_output=True, text=True)
        except OSError as error:
            raise BuildError(f"cannot run {full[0]!r}: {error}; install g++ or clang++, or correct $CXX") from error
        if run.returncode != 0:
            unfinished.unlink(missing_ok=True)
            raise BuildError(f"compiling {source} failed:\n{run.stderr}\ncommand: {shlex.join(full)}")
        os.replace(unfinished, target)
    return target


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    unfinished.write_text(text)
    os.replace(unfinished, path)
