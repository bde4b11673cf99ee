"""`meta.package` and `meta.load`: models compiled ahead, run without the compiler, from Python and from C."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import inductor
import meta

TORCH = Path(torch.__file__).parent
EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "run_package.c"


def check(
    model: Any, *args: Any, path: Path, others: tuple[tuple[Any, ...], ...] = (), **kwargs: Any
) -> meta.PackagedModel:
    """Package, load, and compare with eager; `others` are more arguments to compare for."""
    options = {name: kwargs.pop(name) for name in ("dynamic", "options") if name in kwargs}
    meta.package(model, args, path, kwargs=kwargs, **options)
    loaded = meta.load(path)
    for each in (args, *others):
        with torch.no_grad():
            expected = model(*each, **kwargs)
        torch.testing.assert_close(loaded(*each, **kwargs), expected, rtol=1e-4, atol=1e-5)
    return loaded


class Block(nn.Module):
    """Convolutions with batch norm and a way around."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, groups=2)
        self.norm, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.second(F.relu(self.norm(self.first(x)))))
        return F.relu(x + y)


def residual_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 7, stride=2, padding=3),
        nn.MaxPool2d(3, 2, 1),
        Block(16),
        Block(16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    ).eval()


class Encoder(nn.Module):
    """A small BERT: embeddings, attention with a mask, layer norm, gelu."""

    def __init__(self, width: int = 64, heads: int = 2) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(100, width), nn.Embedding(64, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.heads = heads

    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        x = self.norms[0](self.words(ids) + self.places(torch.arange(ids.shape[1])))
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        bias = None if mask is None else (1 - mask[:, None, None, :].float()) * -1e4
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)
        x = self.norms[1](x + self.out(attended))
        x = self.norms[2](x + self.narrow(F.gelu(self.wide(x))))
        return {"last": x, "pooled": x[:, 0]}


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


def test_mlp(tmp_path: Path):
    loaded = check(mlp(), torch.randn(3, 8), path=tmp_path / "m.so", others=((torch.randn(3, 8),),))
    with pytest.raises(ValueError, match="size of dimension 0 is 4, and the model is compiled for 3"):
        loaded(torch.randn(4, 8))
    with pytest.raises(ValueError, match="stride of dimension"):
        loaded(torch.randn(8, 3).t())
    with pytest.raises(TypeError, match="dtype float32"):
        loaded(torch.randn(3, 8, dtype=torch.float64))
    with pytest.raises(ValueError, match="has 1 dimensions, not 2"):
        loaded(torch.randn(8))
    with pytest.raises(TypeError, match="not a tensor"):
        loaded("x")
    with pytest.raises(ValueError, match="tuple of 1"):
        loaded(torch.randn(3, 8), torch.randn(3, 8))
    with pytest.raises(TypeError, match="keyword"):
        loaded(torch.randn(3, 8), y=1)


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_residual_net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isa: str):
    if isa == "avx512" and "avx512bw" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX-512")
    monkeypatch.setenv("CPU_CODEGEN_ISA", isa)
    loaded = check(residual_net(), torch.randn(2, 3, 64, 64), path=tmp_path / "m.so")
    assert loaded.manifest["isa"] == isa


def test_encoder(tmp_path: Path):
    ids, mask = torch.randint(0, 100, (2, 16)), torch.ones(2, 16, dtype=torch.long)
    mask[1, 10:] = 0
    loaded = check(Encoder().eval(), ids, path=tmp_path / "m.so", mask=mask)
    with pytest.raises(IndexError, match="out of range"):
        loaded(ids + 100, mask=mask)
    with pytest.raises(ValueError, match="keys 'mask'"):
        loaded(ids, masks=mask)


def test_weights_and_inputs_with_gradients(tmp_path: Path):
    model = mlp()
    meta.package(model, (torch.randn(3, 8),), tmp_path / "m.so")
    x = torch.randn(3, 8, requires_grad=True)
    result = meta.load(tmp_path / "m.so")(x)
    assert not result.requires_grad
    torch.testing.assert_close(result, model(x).detach())


def test_autocast_is_no_matter_of_a_package(tmp_path: Path):
    model, x = residual_net(), torch.randn(1, 3, 32, 32)
    loaded = check(model, x, path=tmp_path / "m.so")
    plain = loaded(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(loaded(x), plain)


def test_dynamic_batch(tmp_path: Path):
    x = torch.randn(3, 3, 32, 32)
    meta.mark_dynamic(x, 0)
    model = residual_net()
    loaded = check(model, x, path=tmp_path / "m.so", others=tuple((torch.randn(n, 3, 32, 32),) for n in (2, 5, 16)))
    with pytest.raises(ValueError, match="size of dimension 2 is 48"):
        loaded(torch.randn(3, 3, 48, 32))


def test_dynamic_everywhere(tmp_path: Path):
    ids = torch.randint(0, 100, (2, 16))
    sizes = ((4, 7), (3, 64), (2, 2))
    check(
        Encoder().eval(),
        ids,
        path=tmp_path / "m.so",
        dynamic=True,
        others=tuple((torch.randint(0, 100, s),) for s in sizes),
    )


def test_conditions_on_sizes(tmp_path: Path):
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 2) * 2 + y.sum() if x.shape[0] > 3 else x

    args = torch.randn(6), torch.randn(6)
    others = ((torch.randn(8), torch.randn(8)), (torch.randn(4), torch.randn(4)))
    loaded = check(model, *args, path=tmp_path / "m.so", dynamic=True, others=others)
    with pytest.raises(ValueError, match="sizes are not what"):
        loaded(torch.randn(2), torch.randn(2))
    with pytest.raises(ValueError, match="sizes are not what"):
        loaded(torch.randn(7), torch.randn(7))
    with pytest.raises(ValueError, match="size of dimension 0"):
        loaded(torch.randn(6), torch.randn(8))


def test_results_of_every_kind(tmp_path: Path):
    Pair = namedtuple("Pair", "a b")

    def model(x: torch.Tensor, more: dict[str, Any], unused: torch.Tensor, n: int) -> Any:
        y = x * n + more["z"][0]
        values, places = torch.topk(y, 2)
        return {
            "y": y,
            "view": y[0],
            "x": x,
            "inside": x[1:],
            "pair": Pair(values, [places, None]),
            "n": n,
            "same": (y, 1.5),
        }

    args = torch.randn(3, 4), {"z": [torch.randn(4)]}, torch.randn(2), 3
    meta.package(model, args, tmp_path / "m.so")
    loaded = meta.load(tmp_path / "m.so")
    found, expected = loaded(*args), model(*args)
    assert found["x"] is args[0] and found["y"] is found["same"][0] and found["pair"]._fields == ("a", "b")
    found["pair"], expected["pair"] = tuple(found["pair"]), tuple(expected["pair"])
    torch.testing.assert_close(found, expected)
    before = args[0].clone()
    found["inside"].zero_(), found["view"].zero_()
    assert torch.equal(args[0], before) and torch.equal(found["y"], expected["y"])
    with pytest.raises(ValueError, match="is 4, and the model was packaged for 3"):
        loaded(*args[:3], 4)
    with pytest.raises(ValueError, match="argument tensor 2 is not as"):
        loaded(args[0], args[1], torch.randn(5), 3)


def test_operators_by_name(tmp_path: Path):
    """Those without a C function of their own: optional tensors, lists, dtypes, strings, tensor lists."""

    def model(x: torch.Tensor, w: torch.Tensor) -> Any:
        norm = torch.ops.aten.linalg_vector_norm(torch.linalg.svd(x)[1], 2, None, False, dtype=torch.float64)
        mode = torch.searchsorted(w.sort().values, x, side="right")
        parts = torch._foreach_erfc([x[0, 0], w])
        return norm, mode, parts[0] + parts[1], x.t().mv(w[:3]), torch.fft.fft(x).abs(), torch.nonzero(x > 0)

    check(model, torch.randn(3, 4), torch.randn(5), path=tmp_path / "m.so")


def test_tensors_without_elements(tmp_path: Path):
    check(
        lambda x, y: (x + 1, torch.cat([x, y]).mm(y.t())), torch.randn(0, 4), torch.randn(3, 4), path=tmp_path / "m.so"
    )


def test_weights_of_every_kind(tmp_path: Path):
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6).t())
            self.part = torch.randn(10, 8)[2:8, ::2]
            self.narrow = nn.Parameter(torch.randn(4, dtype=torch.bfloat16))
            self.register_buffer("one", torch.tensor(3))
            self.empty = torch.empty(0, 4)

        def forward(self, x: torch.Tensor) -> Any:
            return (
                x @ self.weight,
                (x * self.part[:, 0] * self.one).to(self.narrow.dtype),
                self.narrow * 2,
                torch.cat([self.empty, x[:, :4]]),
            )

    check(Model(), torch.randn(3, 6), path=tmp_path / "m.so")


def test_weights_stay_with_each_model(tmp_path: Path):
    model, x = mlp(), torch.randn(3, 8)
    meta.package(model, (x,), tmp_path / "m.so")
    first, second = meta.load(tmp_path / "m.so"), meta.load(tmp_path / "m.so")
    expected = model(x).detach()
    with torch.no_grad():
        model[0].weight.zero_()
    torch.testing.assert_close(first(x), expected)
    del first
    torch.testing.assert_close(second(x), expected)


def test_what_is_refused(tmp_path: Path):
    path = tmp_path / "m.so"
    x = torch.randn(4, 3)
    with pytest.raises(meta.NotPackageable, match=r"writes to .*running_mean"):
        meta.package(nn.BatchNorm1d(3).train(), (x,), path)
    with pytest.raises(meta.NotPackageable, match="writes to x"):
        meta.package(lambda x: x.add_(1), (x.clone(),), path)
    with pytest.raises(meta.NotPackageable, match="number"):
        meta.package(lambda x, n: x * n, (x, 3), path, dynamic=True)
    with pytest.raises(meta.NotPackageable, match="same tensor"):
        meta.package(lambda x, y: x * y, (x, x), path)
    with pytest.raises(meta.NotPackageable, match="nothing to compile"):
        meta.package(lambda x: 3, (x,), path)
    weight = torch.randn(3)
    with pytest.raises(meta.NotPackageable, match="of the model's own"):
        meta.package(lambda x: (x * weight, weight), (x,), path)
    with pytest.raises(TypeError, match="neither a tensor nor plain"):
        meta.package(lambda x, o: x, (x, object()), path)
    assert not path.exists()


@pytest.mark.parametrize("where", ["code", "weights", "manifest", "footer", "end"])
def test_damage_is_found(tmp_path: Path, where: str):
    path, x = tmp_path / "m.so", torch.randn(3, 8)
    meta.package(mlp(), (x,), path)
    meta.load(path, verify=True)
    content = bytearray(path.read_bytes())
    places = {"code": 5000, "weights": content.rindex(b'{"name"') - 20, "manifest": -300, "footer": -60, "end": None}
    place = places[where]
    if place is None:
        del content[-10:]
    else:
        content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(meta.DamagedPackage):
        meta.load(path, verify=True)
    if where == "weights":  # numbers are read when they are used
        assert meta.load(path)(x).shape == (3, 4)
    else:
        with pytest.raises(meta.DamagedPackage):
            meta.load(path)


def test_damage_in_many_pieces_of_weights(tmp_path: Path):
    path, weight = tmp_path / "m.so", torch.randn(9, 1 << 18)
    meta.package(lambda x: x * weight, (torch.randn(1 << 18),), path)
    content = path.read_bytes()
    start = content.index(weight.numpy().tobytes()[:64])
    meta.load(path, verify=True)
    for at in (start, start + (1 << 22), start + 9 * (1 << 20) - 1):
        path.write_bytes(content[:at] + bytes([content[at] ^ 128]) + content[at + 1 :])
        with pytest.raises(meta.DamagedPackage, match="weights"):
            meta.load(path, verify=True)


def test_another_package_at_the_same_path(tmp_path: Path):
    """The dynamic loader goes by names."""
    path, x = tmp_path / "m.so", torch.randn(3, 8)
    meta.package(lambda x: x + 1, (x,), path)
    first = meta.load(path)
    meta.package(lambda x: x * 5 + 7, (x,), path)
    second = meta.load(path)
    assert torch.equal(first(x), x + 1) and torch.equal(second(x), x * 5 + 7)
    same = meta.load(path)
    del second
    assert torch.equal(same(x), x * 5 + 7)


def test_lazily_negated_and_conjugated_arguments(tmp_path: Path):
    x, z = torch.randn(3, 8), torch.randn(3, 8, dtype=torch.complex64)
    loaded = check(lambda x, z: (x * 2, z.clone(), z.real + 1), x, z, path=tmp_path / "m.so")
    negated = torch._neg_view(x)
    assert negated.is_neg() and z.conj().is_conj()
    assert torch.equal(loaded(negated, z)[0], -x * 2)
    found = loaded(x, z.conj())
    assert torch.equal(found[1], z.conj().resolve_conj()) and torch.equal(found[2], z.real + 1)


def test_numbers_are_those_it_was_packaged_for(tmp_path: Path):
    x = torch.randn(3)
    meta.package(lambda x, s: x * s, (x, float("nan")), tmp_path / "n.so")
    assert bool(meta.load(tmp_path / "n.so")(x, float("nan")).isnan().all())
    loaded = check(lambda x, s: x / s, x, 0.0, path=tmp_path / "m.so")
    for other in (-0.0, False, 0):
        with pytest.raises(ValueError, match=r"packaged for 0\.0"):
            loaded(x, other)


class Wrapper(torch.Tensor):
    """A tensor without memory of its own."""

    @staticmethod
    def __new__(cls, tensor: torch.Tensor):
        return torch.Tensor._make_wrapper_subclass(cls, tensor.shape, dtype=tensor.dtype)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError


def test_what_is_no_tensor_with_memory_is_refused(tmp_path: Path):
    x = torch.randn(3, 8)
    meta.package(lambda x: x * 2, (x,), tmp_path / "m.so")
    loaded = meta.load(tmp_path / "m.so")
    emptied = torch.randn(3, 8)
    emptied.untyped_storage().resize_(0)
    for wrong in (Wrapper(x), emptied, torch.empty(3, 8, device="meta")):
        with pytest.raises(ValueError, match=r"memory|CPU"):
            loaded(wrong)
    for other in (x.untyped_storage(), torch.Generator(), None):
        with pytest.raises(TypeError, match="not a tensor"):
            loaded(other)


def test_freezing(tmp_path: Path):
    """What follows from weights is in the file in their place."""
    model, x = residual_net(), torch.randn(2, 3, 64, 64)
    for block in (model[2], model[3]):
        for norm in (block.norm, block.norm2):
            norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
    meta.mark_dynamic(x, 0)
    loaded = check(model, x, path=tmp_path / "m.so", others=((torch.randn(5, 3, 64, 64),),), options={"freezing": True})
    shapes = [shape for _, _, shape, _, _ in loaded.manifest["weights"]]
    plain = check(model, x, path=tmp_path / "p.so").manifest["weights"]
    assert len(shapes) < len(plain) and [16, 16, 3, 3] in shapes
    words = Encoder().eval()
    ids = torch.randint(0, 100, (2, 16))
    check(words, ids, path=tmp_path / "e.so", options={"freezing": True})
    assert torch.equal(*(meta.load(tmp_path / "e.so")(ids)["last"] for _ in range(2)))


def test_threads(tmp_path: Path):
    model = Encoder().eval()
    meta.package(model, (torch.randint(0, 100, (2, 16)),), tmp_path / "m.so")
    loaded = meta.load(tmp_path / "m.so")
    given = [torch.randint(0, 100, (2, 16)) for _ in range(8)]
    with torch.no_grad():
        expected = [model(ids)["last"] for ids in given]
    with ThreadPoolExecutor(4) as workers:
        for found, wanted in zip(
            workers.map(lambda at: loaded(given[at % 8])["last"], range(64)), expected * 8, strict=True
        ):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_not_a_package(tmp_path: Path):
    (tmp_path / "x").write_bytes(b"nothing")
    with pytest.raises(meta.DamagedPackage):
        meta.load(tmp_path / "x")


BARE = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("capture", "aotgrad", "inductor", "cpu_codegen", "symshapes"):
            raise ImportError(f"{name} is not to be imported")

sys.meta_path.insert(0, Nothing())
import torch
import meta

model = meta.load(sys.argv[1])
given = torch.load(sys.argv[2], weights_only=True)
torch.save(model(*given["args"], **given["kwargs"]), sys.argv[3])
compiler = {"capture", "aotgrad", "inductor", "cpu_codegen", "symshapes"} & set(sys.modules)
assert not compiler, compiler
"""


@pytest.mark.parametrize("kind", ["mlp", "residual", "encoder"])
def test_without_the_compiler(tmp_path: Path, kind: str):
    model, args, kwargs = {
        "mlp": (mlp(), (torch.randn(3, 8),), {}),
        "residual": (residual_net(), (torch.randn(1, 3, 32, 32),), {}),
        "encoder": (Encoder().eval(), (torch.randint(0, 100, (2, 8)),), {"mask": torch.ones(2, 8, dtype=torch.long)}),
    }[kind]
    meta.package(model, args, tmp_path / "m.so", kwargs=kwargs)
    torch.save({"args": args, "kwargs": kwargs}, tmp_path / "in")
    # Nothing can be compiled either, and nothing is found of what was.
    environment = {**os.environ, "CXX": "/nowhere", "INDUCTOR_CACHE_DIR": str(tmp_path / "none")}
    command = [sys.executable, "-c", BARE, str(tmp_path / "m.so"), str(tmp_path / "in"), str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        expected = model(*args, **kwargs)
    torch.testing.assert_close(torch.load(tmp_path / "out", weights_only=True), expected, rtol=1e-4, atol=1e-5)


def run_in_c(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The example program, compiled, with these arguments."""
    library, program = TORCH / "lib", folder / "program"
    subprocess.run(
        [
            "gcc", "-Wall", "-Wextra", "-Werror", str(EXAMPLE), f"-I{inductor.NATIVE_FOLDER}", "-o", str(program), f"-L{library}",
            "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", "-ltorch_cpu", f"-Wl,-rpath,{library}", "-ldl",
        ],
        check=True,
    )  # fmt: skip
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=120)


def test_from_c(tmp_path: Path):
    x = (0.01 * torch.arange(2 * 3 * 32 * 32, dtype=torch.float32)).view(2, 3, 32, 32)
    meta.mark_dynamic(x, 0)
    model = residual_net()
    path = tmp_path / "m.so"
    meta.package(model, (x,), path)
    for batch in (2, 3):
        x = (0.01 * torch.arange(batch * 3 * 32 * 32, dtype=torch.float32)).view(batch, 3, 32, 32)
        done = run_in_c(tmp_path, str(path), *map(str, x.shape))
        assert done.returncode == 0, done.stderr
        shape, _, numbers = done.stdout.partition("]")
        found = torch.tensor([float(word) for word in numbers.split()]).view(
            [int(n) for n in shape.strip("[ ").split()]
        )
        with torch.no_grad():
            torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-4)
    wrong = run_in_c(tmp_path, str(path), "2", "3", "32", "16")
    assert wrong.returncode == 1 and "the size of dimension 3 is 16, and the model is compiled for 32" in wrong.stderr
    path.write_bytes(path.read_bytes()[:-1])
    cut = run_in_c(tmp_path, str(path), "2", "3", "32", "32")
    assert cut.returncode == 1 and "is no package of this model, or is not whole" in cut.stderr


def test_the_manifest_is_plain(tmp_path: Path):
    meta.package(mlp(), (torch.randn(3, 8),), tmp_path / "m.so")
    manifest = meta.load(tmp_path / "m.so").manifest
    assert json.loads(json.dumps(manifest)) == manifest
    assert [shape for _, _, shape, _, _ in manifest["weights"]] == [[16, 8], [16], [4, 16], [4]]
