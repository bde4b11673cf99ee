"""From C++ text to loaded functions: compiler discovery, flags, the disk cache.

Flows in: source text. Flows out: paths of shared objects in inductor's disk cache, under the hash of all that went into
them, so that all processes compile a text once.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from cpu_codegen._torch import openmp_runtime
from cpu_codegen.cpu_info import Isa
from cpu_codegen.environment import environment, for_compilers
from inductor import BuildError, DiskCache, Entry, scratch_folder
from symshapes import dataclass

INCLUDE = Path(__file__).parent / "include"

FLAGS: tuple[str, ...] = (
    "-std=c++17",
    # Vectors are written out, so that -O3 finds little to do and takes half as long again. What it would be missed for is
    # unrolling: arrays of sums become registers.
    "-O2",
    "-fpeel-loops",
    "-fPIC",
    # Exact IEEE arithmetic: eager neither contracts a * b + c nor reorders, and NaN and infinities mean what they say.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    "-fvisibility=hidden",
    "-w",
)


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: how to call it, and what tells it from other ones and other versions."""

    command: tuple[str, ...]
    identity: str

    @property
    def openmp(self) -> bool:
        """Whether there is an OpenMP runtime it can link; tried once and kept in the cache."""
        try:
            return _has_openmp(self)
        except (_CompilerFailed, OSError):  # nothing can be compiled just now (a full disk, say): asked again next time
            return False


def find_compiler() -> Compiler:
    """`$CXX`, else the first of g++, c++ and clang++ on the path.

    Raises:
        BuildError: there is none.
    """
    found = environment()
    return _compiler(found.compiler, found.path, found.compiler_reads)


@functools.lru_cache(maxsize=8)
def _compiler(chosen: str | None, path: str | None, reads: tuple[tuple[str, str], ...]) -> Compiler:
    if chosen:
        command = tuple(shlex.split(chosen))
    else:
        found = next((c for c in ("g++", "c++", "clang++") if shutil.which(c, path=path)), None)
        if found is None:
            raise BuildError(f"no C++ compiler found: {_INSTALL}, or name one in $CXX")
        command = (found,)
    program = shutil.which(command[0], path=path)
    if program is None:
        raise BuildError(f"the C++ compiler {shlex.join(command)!r} is not there: {_INSTALL}, or correct $CXX")
    # The program's own place, size and age: asking it for its version would take longer than all else here.
    real = Path(program).resolve()
    status = real.stat()
    return Compiler(command, f"{shlex.join(command)} {real} {status.st_size} {status.st_mtime_ns} {reads}")


_INSTALL = "install g++ or clang++ (apt-get install g++, dnf install gcc-c++)"

_OPENMP_PROBE = """extern "C" void GOMP_parallel(void (*)(void*), void*, unsigned, unsigned);
static void nothing(void*) {}
void f() { GOMP_parallel(nothing, nullptr, 0, 0); }
"""


@functools.lru_cache(maxsize=8)
def _has_openmp(compiler: Compiler) -> bool:
    cache, key = DiskCache("cpu"), _digest(_OPENMP_PROBE, compiler.identity, *_thread_flags()[1])
    known = cache.get(key)
    if known is not None:
        return known.files.get("openmp") == b"yes"
    command = (*compiler.command, "-fPIC", "-Wl,-z,defs")
    try:
        _compile("probe", ".cpp", [_OPENMP_PROBE], command, _thread_flags()[1])
        works = True
    except _CompilerFailed:
        _compile("probe", ".cpp", ["void f() {}\n"], command, ())  # it is the runtime that is missing, nothing else
        works = False
    with contextlib.suppress(OSError):  # asked again next time
        cache.put(key, {"openmp": b"yes" if works else b"no"})
    return works


def _thread_flags() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Flags to compile and to link with. Torch's own runtime is linked by its path where it is known: one pool of
    threads, one `torch.set_num_threads`."""
    runtime = openmp_runtime()
    return (("-fopenmp",), ("-fopenmp",)) if runtime is None else (("-DUSE_THREADS",), (runtime,))


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


T = TypeVar("T")

Others = Sequence[tuple[str, Sequence[str]]]
"""Texts with a command of their own each."""
Parts = Callable[[], Sequence[str]]
"""Makes the files that are compiled, where they are."""


def load_kernels(text: str, isa: Isa, load: Callable[[Path], T], parts: Parts | None = None) -> T:
    """What `load` makes of the shared object of a kernel file, which is compiled if the cache does not hold it; the source
    lies beside it.

    Args:
        load: called with the shared object's path; raises OSError if it can't be loaded.
        parts: makes of the same file several that can be compiled beside each other.

    Raises:
        BuildError: with the compiler's output and the source's path.
    """
    compiler = find_compiler()
    define, link = _thread_flags() if compiler.openmp else ((), ())
    command = (*compile_command(compiler, isa), *define)
    key = _key([text], command, link, compiler.identity, headers_digest())
    return _load(key, load, "kernels", ".cpp", text, parts or (lambda: [text]), command, link)


def load_shared(parts: Sequence[str], isa: Isa, plain: Sequence[str], include: Path, load: Callable[[Path], T]) -> T:
    """What `load` makes of the shared object of kernel files and of others beside them, compiled if the cache does not hold it.

    It depends on no library by name: the functions of the OpenMP runtime that kernels call are defined by one of `plain`.

    Args:
        parts: kernel files, compiled for `isa`.
        plain: C++ that any machine runs, and that is small: optimised little.
        include: where `plain` finds what it includes.
        load: called with the shared object's path; raises OSError if it can't be loaded.

    Raises:
        BuildError: with the compiler's output and the source's path.
    """
    compiler = find_compiler()
    command = (*compile_command(compiler, isa), "-DUSE_THREADS")
    others = (*compiler.command, "-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-w", f"-I{include}")
    headers = "".join(header.read_text() for header in sorted(include.glob("*.h")))
    key = _key([*parts, *plain], (*command, *others), (), compiler.identity, headers_digest(), headers)
    beside = [(each, others) for each in plain]
    return _load(key, load, "graph", ".cpp", "\n".join((*plain[:1], *parts)), lambda: parts, command, ("-ldl",), beside)


def load_extension(name: str, text: str, command: Sequence[str], identity: str, load: Callable[[Path], T]) -> T:
    """What `load` makes of the shared object of one C file, from the cache or compiled with `command`.

    Raises:
        BuildError: with the compiler's output and the source's path.
    """
    return _load(_digest(text, *command, identity), load, name, ".c", text, lambda: [text], command, ())


def _key(texts: Sequence[str], command: Sequence[str], link: Sequence[str], *identities: str) -> str:
    """Of a shared object, by what it is made of. What is none of it: comments, which name the user's lines, and where headers
    and the runtime lie, which differ from environment to environment; a shared object asks for a runtime by its name."""
    code = ["\n".join(line for line in text.splitlines() if not line.startswith("//")) for text in texts]
    flags = [word for word in command if not word.startswith("-I")]
    return _digest(*code, *flags, *(Path(word).name for word in link), *identities)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


def _load(
    key: str,
    load: Callable[[Path], T],
    name: str,
    suffix: str,
    text: str,
    parts: Parts,
    command: Sequence[str],
    link: Sequence[str],
    others: Others = (),
) -> T:
    cache = DiskCache("cpu")
    library = f"{name}.so"

    def made() -> Entry:
        found = cache.get(key)
        if found is None:
            with cache.lock(key):
                found = cache.get(key) or _build(cache, key, name, suffix, text, parts, command, link, others)
        return found

    for _ in range(3):
        path = made().path(library)
        try:
            return load(path)
        except OSError as error:
            if not path.exists():  # another process made space
                continue
            why = error
            break
    else:
        why = OSError(f"{path} vanishes as soon as it is made")
    # Its content is what the compiler made, so it is the place: a disk mounted without the right to execute.
    try:
        return load(cache.put_aside(key, made().files, why).path(library))
    except OSError as error:
        raise BuildError(f"what was compiled for {path} can't be loaded: {error}") from why


def _build(
    cache: DiskCache,
    key: str,
    name: str,
    suffix: str,
    text: str,
    parts: Parts,
    command: Sequence[str],
    link: Sequence[str],
    others: Others = (),
) -> Entry:
    try:
        content = _compile_gently(name, suffix, list(parts()), command, link, others)
        return cache.put(key, {f"{name}{suffix}": text.encode(), f"{name}.so": content})
    except _CompilerFailed as failed:
        place = f"{name}{suffix}"
        with contextlib.suppress(OSError):
            place = str(cache.put(f"failed-{key}", {place: text.encode()}).path(place))
        raise BuildError(f"compiling {place} failed:\n{failed}") from None
    except OSError as error:
        raise BuildError(f"there is no space for compiled code: {error}") from error


class _CompilerFailed(Exception):
    """A compiler's output and how it was called."""


def _compile_gently(
    name: str, suffix: str, parts: list[str], command: Sequence[str], link: Sequence[str], others: Others = ()
) -> bytes:
    """Compile the parts; where the compiler itself breaks down (g++ 12 does over some masked loads), with fewer optimizations."""
    try:
        return _compile(name, suffix, parts, command, link, others)
    except _CompilerFailed as failed:
        gentler = ["-O1" if word == "-O2" else word for word in command]
        if "internal compiler error" not in str(failed) or gentler == list(command):
            raise
    return _compile(name, suffix, parts, gentler, link, others)


def _compile(
    name: str, suffix: str, parts: list[str], command: Sequence[str], link: Sequence[str], others: Others = ()
) -> bytes:
    """Compile the parts beside each other and link them; the shared object's content. Where the temporary folder takes
    nothing more, shared memory may."""
    try:
        return _compile_below(None, name, suffix, parts, command, link, others)
    except (_CompilerFailed, OSError):
        if _has_room(None) or not _has_room(_OTHER_ROOM):
            raise
    return _compile_below(_OTHER_ROOM, name, suffix, parts, command, link, others)


_OTHER_ROOM = "/dev/shm"


def _has_room(folder: str | None) -> bool:
    """Whether files as large as a compile makes them can be written; None: in the temporary folder."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1 << 22))
            file.flush()
    except OSError:
        return False
    return True


def _compile_below(
    place: str | None,
    name: str,
    suffix: str,
    parts: list[str],
    command: Sequence[str],
    link: Sequence[str],
    others: Others,
) -> bytes:
    with scratch_folder(place) as scratch:
        target = scratch / f"{name}.so"
        texts = [(part, command) for part in parts] + list(others)
        sources = [scratch / f"{name}{k or ''}{suffix}" for k in range(len(texts))]
        for source, (text, _) in zip(sources, texts, strict=True):
            source.write_text(text)
        if len(sources) == 1:
            _run([[*command, "-shared", str(sources[0]), "-o", str(target), *link]], str(scratch))
        else:
            objects = [str(source.with_suffix(".o")) for source in sources]
            commands = [[*each, "-c", str(s), "-o", o] for s, o, (_, each) in zip(sources, objects, texts, strict=True)]
            _run(commands, str(scratch))
            _run([[command[0], *_driver(command), "-shared", *objects, "-o", str(target), *link]], str(scratch))
        return target.read_bytes()


def _driver(command: Sequence[str]) -> Sequence[str]:
    """What belongs to the compiler's name in a command (`$CXX` may be several words)."""
    first_flag = next((k for k, word in enumerate(command) if word.startswith("-")), len(command))
    return command[1:first_flag]


def _run(commands: list[list[str]], folder: str) -> None:
    """Run the commands at the same time, with `folder` for what compilers keep meanwhile; all have ended when this returns."""
    given = for_compilers(folder)
    try:
        started = [
            subprocess.Popen(
                c, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=given
            )
            for c in commands
        ]
    except OSError as error:
        raise BuildError(f"cannot run {commands[0][0]!r}: {error}; {_INSTALL}, or correct $CXX") from error
    outputs = [process.communicate()[0] for process in started]
    for process, output, command in zip(started, outputs, commands, strict=True):
        if process.returncode != 0:
            raise _CompilerFailed(f"{output}\ncommand: {shlex.join(command)}")
