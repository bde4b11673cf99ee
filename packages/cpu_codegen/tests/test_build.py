"""Compilers, the disk cache, threads, and the launcher's checks."""

from __future__ import annotations

import ctypes
import shutil
import threading
from pathlib import Path

import pytest
import torch

import cpu_codegen.build as build_module
from cpu_codegen import CpuBackend, detect_isa, launcher
from cpu_codegen._torch import openmp_runtime
from inductor import BuildError, DeviceBackend, address_facts, backend_for, cache_root, ops

F32 = torch.float32
BUFFERS = {"x": ("in", F32), "y": ("out", F32)}


def copy(outer, inner):
    ops.store("y", outer[0], ops.load("x", outer[0]))


def emitted(case, name="copy", size=10):
    backend = CpuBackend()
    source = backend.emit(case(name, copy, [size], [], BUFFERS).kernel)
    return backend, backend.module_text([source]), [source]


def test_backend_is_found_by_entry_point():
    backend = backend_for(torch.device("cpu"))
    assert isinstance(backend, CpuBackend) and isinstance(backend, DeviceBackend)


def test_missing_compiler_is_named(case, monkeypatch):
    backend, text, sources = emitted(case)
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    with pytest.raises(BuildError, match=r"/nonexistent/c\+\+.*install g\+\+ or clang\+\+"):
        backend.build(text + "// other", sources)


def test_no_compiler_says_what_to_install(case, monkeypatch, tmp_path):
    backend, text, sources = emitted(case)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="install g\\+\\+ or clang\\+\\+"):
        backend.build(text, sources)
    assert "no compiler here" in backend.module_text(sources)


def test_compiler_errors_carry_message_and_place(case):
    backend, text, sources = emitted(case)
    with pytest.raises(BuildError, match=r"not_a_type.*\n(.*\n)*command: ") as caught:
        backend.build(text + "\nnot_a_type x;\n", sources)
    place = next(word for word in str(caught.value).split() if word.endswith(".cpp"))
    assert "not_a_type x;" in Path(place).read_text()


def test_builds_once_per_content(case, monkeypatch):
    backend, text, sources = emitted(case, size=11)
    first = backend.build(text, sources)
    files = set(cache_root().rglob("*"))

    def refuse(*args, **kwargs):
        raise AssertionError("compiled again")

    monkeypatch.setattr(build_module.subprocess, "Popen", refuse)
    second = backend.build(text, sources)
    assert set(first) == set(second) == {"copy", "_fresh_cpu", "_pooled_cpu"}
    assert set(cache_root().rglob("*")) == files


def test_much_work_is_counted_in_full(case):
    """More than 32 bits hold: what wraps round looks like little, and runs on one thread."""

    def costly(outer, inner):
        i, j = outer
        ops.store("y", i * 1536 + j, ops.erf(ops.exp(ops.load("x", j * 400_000 + i))))

    def product(outer, inner):
        (i, j), (k,) = outer, inner
        factors = ops.mul(ops.load("x", i * 384 + k), ops.load("w", k * 1536 + j))
        ops.store("y", i * 1536 + j, ops.erf(ops.exp(ops.reduce("sum", factors))))

    backend, buffers = CpuBackend(), {"x": ("in", F32), "w": ("in", F32), "y": ("out", F32)}
    for made in (
        case("costly", costly, [400_000, 1536], [], BUFFERS),
        case("product", product, [400_000, 1536], [384], buffers),
    ):
        source = backend.emit(made.kernel)
        library = build_module.load_kernels(
            backend.module_text([source]), backend.isa, lambda path: ctypes.CDLL(str(path))
        )
        work = getattr(library, f"{backend.entry(source.kernel)}_work")
        work.restype = ctypes.c_int64
        assert work(None) >= 400_000 * 1536 * 8 >= 1 << 31


def test_where_things_lie_and_what_comments_say_is_no_reason_to_build_again(case, monkeypatch, tmp_path):
    backend, text, sources = emitted(case, size=13)
    backend.build(text, sources)
    runtimes, headers = tmp_path / "torch", tmp_path / "include"
    shutil.copytree(build_module.INCLUDE, headers)
    monkeypatch.setattr(build_module, "INCLUDE", headers)
    runtime = build_module.openmp_runtime()
    if runtime is not None:
        runtimes.mkdir()
        monkeypatch.setattr(build_module, "openmp_runtime", lambda: str(shutil.copy(runtime, runtimes)))
    with monkeypatch.context() as patched:
        patched.setattr(build_module.subprocess, "Popen", None)
        calls = backend.build("// model.py:7 in forward\n" + backend.module_text(sources), sources)
    x, y = torch.randn(13), torch.zeros(13)
    calls["copy"](x, y)
    assert torch.equal(x, y)
    (headers / "kernel.h").write_text((headers / "kernel.h").read_text() + "\n")
    build_module.headers_digest.cache_clear()
    with monkeypatch.context() as patched, pytest.raises(TypeError):
        patched.setattr(build_module.subprocess, "Popen", None)
        backend.build(text, sources)
    build_module.headers_digest.cache_clear()


def test_many_kernels_compile_beside_each_other(case, monkeypatch):
    """Several files in, one shared object out; the source in the cache is the whole file."""
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(4))
    backend = CpuBackend()
    sources = [backend.emit(case(f"copy{k}", copy, [100 + k], [], BUFFERS).kernel) for k in range(10)]
    text = backend.module_text(sources)
    assert len(backend._parts(sources)) == 3
    calls = backend.build(text, sources)
    assert [p for p in cache_root().rglob("kernels.cpp") if p.read_text() == text]
    for k in range(10):
        x, y = torch.randn(100 + k), torch.zeros(110)
        calls[f"copy{k}"](x, y)
        assert torch.equal(y[: 100 + k], x) and not bool(y[100 + k :].any())


def test_concurrent_builds(case):
    backend, text, sources = emitted(case, size=12)
    results = []
    threads = [threading.Thread(target=lambda: results.append(backend.build(text, sources))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 4


def test_instruction_set_by_environment(case, monkeypatch):
    for name, width in (("avx512", 64), ("avx2", 32), ("scalar", 16)):
        monkeypatch.setenv("CPU_CODEGEN_ISA", name)
        assert detect_isa().vector_bytes == width
        # All three compile on any x86 machine; only running needs the instructions.
        backend, text, _ = emitted(case, size=100)
        assert f"-DVECTOR_BYTES={width}" in text
        build_module.load_kernels(text, backend.isa, Path)
    monkeypatch.setenv("CPU_CODEGEN_ISA", "mmx")
    with pytest.raises(ValueError, match="mmx"):
        detect_isa()


def test_without_openmp(case, monkeypatch):
    """A compiler without an OpenMP runtime: kernels run on one thread."""
    monkeypatch.setattr(build_module, "_has_openmp", lambda compiler: False)
    backend, text, sources = emitted(case, size=1_000_000)
    call = backend.build(text, sources)["copy"]
    x = torch.randn(1_000_000)
    y = torch.empty_like(x)
    call(x, y)
    assert torch.equal(x, y)


# ---- Launcher


def test_argument_count_and_types(case):
    backend, text, sources = emitted(case)
    call = backend.build(text, sources)["copy"]
    x, y = torch.randn(10), torch.empty(10)
    with pytest.raises(TypeError, match="copy takes 2 positional arguments, got 1"):
        call(x)
    with pytest.raises(TypeError, match="got 3"):
        call(x, y, x)
    with pytest.raises(TypeError):
        call(x=x, y=y)
    with pytest.raises(AttributeError, match="data_ptr"):
        call(x, 3)
    assert "copy" in repr(call)
    assert call.__name__ == "copy"


def test_sizes_must_be_ints(case, compiled):
    import sympy

    n = sympy.Symbol("n", integer=True, nonnegative=True)
    call = compiled([case("sized", copy, [n], [], BUFFERS, [n])])["sized"]
    with pytest.raises(TypeError):
        call(torch.empty(1), torch.empty(1), "1")
    with pytest.raises(OverflowError):
        call(torch.empty(1), torch.empty(1), 2**64)


def test_views_parameters_and_subclasses_give_their_own_address(case):
    class Sub(torch.Tensor):
        pass

    backend, text, sources = emitted(case)
    call = backend.build(text, sources)["copy"]
    base = torch.randn(30)
    for x in (base[7:17], torch.nn.Parameter(base[3:13]), base[5:15].as_subclass(Sub), base[:10].requires_grad_()):
        y = torch.empty(10)
        call(x, y)
        assert torch.equal(y, x.detach())


def test_address_without_the_shim(case, monkeypatch):
    from cpu_codegen import launcher

    *types, function, offset = address_facts()
    assert function and offset
    backend, text, sources = emitted(case)
    call = backend.build(text, sources)["copy"]
    module = launcher._module()
    try:
        module.configure(*types, 0, 0)
        x, y = torch.randn(10), torch.empty(10)
        call(x, y)
        assert torch.equal(x, y)
    finally:
        module.configure(*types, function, offset)


# ---- Threads


def test_threads_are_torchs_and_their_number_is_honoured(case):
    """Kernels run on the OpenMP runtime torch runs on, so `torch.set_num_threads` rules them."""
    runtime = openmp_runtime()
    assert runtime is not None
    backend, text, _sources = emitted(case, size=4_000_000)
    probe = """
static int member(const Word*, void* count, Index, Index) { return __atomic_fetch_add((int*)count, 1, 0), DONE; }
extern "C" EXPORT int team(const Word* args) {
  int count = 0;
  parallel(member, args, &count, 1000, Index(1) << 40);
  return count;
}
"""
    import ctypes

    library = build_module.load_kernels(text + probe, backend.isa, lambda path: ctypes.CDLL(str(path)))
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert library.team(None) == threads
    finally:
        torch.set_num_threads(before)
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libgomp" in line}
    assert loaded == {runtime}, "a second OpenMP runtime was loaded"


def test_a_compiler_that_fails_once_is_no_compiler_without_threads(tmp_path, monkeypatch):
    """A full disk, no memory: what is remembered, in the cache too, is only that the runtime is missing."""
    monkeypatch.setenv("INDUCTOR_CACHE_DIR", str(tmp_path))
    compile, compiler = build_module._compile, build_module.find_compiler()
    build_module._has_openmp.cache_clear()
    for failure in (build_module._CompilerFailed("no space left"), OSError("no space left")):

        def failing(*arguments, failure=failure):
            raise failure

        monkeypatch.setattr(build_module, "_compile", failing)
        assert not compiler.openmp

    def without_runtime(name, suffix, parts, *rest):
        if "GOMP" in parts[0]:
            raise build_module._CompilerFailed("undefined reference")
        return compile(name, suffix, parts, *rest)

    kept = []
    monkeypatch.setattr(build_module.DiskCache, "put", lambda cache, key, files: kept.append(files))
    monkeypatch.setattr(build_module, "_compile", lambda *arguments: b"")
    assert compiler.openmp and kept == [{"openmp": b"yes"}]
    build_module._has_openmp.cache_clear()
    monkeypatch.setattr(build_module, "_compile", without_runtime)
    assert not compiler.openmp and kept[1:] == [{"openmp": b"no"}]
    build_module._has_openmp.cache_clear()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no other place on this system")
def test_a_temporary_folder_that_is_full(tmp_path, monkeypatch):
    """What the compiler itself writes meanwhile goes elsewhere, too."""
    monkeypatch.setattr(build_module.tempfile, "tempdir", str(tmp_path))
    run, room, places = build_module._run, build_module._has_room, []

    def on_a_full_disk(commands, folder):
        places.append(Path(folder).parent)
        if tmp_path in Path(folder).parents:
            raise build_module._CompilerFailed("no space left on device")
        run([["sh", "-c", f'test "$TMPDIR" = {folder} && exec "$@"', "sh", *words] for words in commands], folder)

    monkeypatch.setattr(build_module, "_run", on_a_full_disk)
    compiled = build_module._compile
    command = (*build_module.find_compiler().command, "-fPIC")
    with pytest.raises(build_module._CompilerFailed):
        compiled("some", ".cpp", ["void f() {}"], command, ())
    assert places == [tmp_path], "there is room, so that is not why it failed"
    monkeypatch.setattr(build_module, "_has_room", lambda folder: folder is not None and room(folder))
    assert compiled("some", ".cpp", ["void f() {}"], command, ())[:4] == b"\x7fELF"
    assert places[1:] == [tmp_path, Path("/dev/shm")] and room(None)


def test_a_launcher_that_cannot_be_compiled_is_told_of(case, monkeypatch):
    backend, text, sources = emitted(case, "without_launcher")
    launcher._loaded.cache_clear()

    def broken(*_):
        raise BuildError("no launcher today")

    monkeypatch.setattr(launcher, "load_extension", broken)
    try:
        with pytest.raises(BuildError, match="no launcher today"):
            backend.build(text, sources)
    finally:
        monkeypatch.undo()
        launcher._loaded.cache_clear()
    x, y = torch.arange(10.0), torch.empty(10)
    backend.build(text, sources)["without_launcher"](x, y)
    assert torch.equal(x, y)


def test_a_finalizer_may_load_kernels_while_its_thread_does(case):
    backend, text, sources = emitted(case)

    def nested():
        with launcher._loading:
            launcher._loaded.cache_clear()
            backend.build(text, sources)

    thread = threading.Thread(target=nested, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_a_compiler_that_breaks_down_is_asked_for_less(monkeypatch):
    """As g++ 12 does over some masked loads: `F.pad` of a row by what its size leaves."""
    compiled, asked = build_module._compile, []

    def breaking(name, suffix, parts, command, link, others=()):
        asked.append(command)
        if "-O2" in command:
            raise build_module._CompilerFailed("internal compiler error: in gimple_expand_vec_cond_expr")
        return compiled(name, suffix, parts, command, link, others)

    monkeypatch.setattr(build_module, "_compile", breaking)
    command = (*build_module.find_compiler().command, "-O2", "-fPIC")
    assert build_module._compile_gently("some", ".cpp", ["void f() {}"], command, ())[:4] == b"\x7fELF"
    assert len(asked) == 2 and "-O1" in asked[1]
    monkeypatch.setattr(build_module, "_compile", failing)
    with pytest.raises(build_module._CompilerFailed, match="not_a_type"):
        build_module._compile_gently("some", ".cpp", ["not_a_type x;"], command, ())


def failing(*arguments):
    raise build_module._CompilerFailed("not_a_type")
