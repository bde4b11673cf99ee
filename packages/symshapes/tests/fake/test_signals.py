"""Spectra, differences and chains of products: the same numbers as eager's, bit for bit, and no size is taken for a constant."""

import itertools
import warnings

import pytest
import torch

from symshapes import DimPolicy, FakeMode, ShapeEnv
from symshapes.fake.signals import block_diag, gradient, multi_dot, stft

WINDOW = torch.hann_window(8)
X = torch.randn(9, 21, generator=torch.Generator().manual_seed(0))

SPECTRA = {
    "plain": (X, {"n_fft": 8, "hop_length": 4, "window": WINDOW, "return_complex": True}),
    "one row": (X[0], {"n_fft": 8, "return_complex": True}),
    "a short window": (
        X,
        {"n_fft": 9, "win_length": 6, "window": WINDOW[:6], "normalized": True, "return_complex": True},
    ),
    "no window": (X, {"n_fft": 8, "win_length": 5, "hop_length": 3, "onesided": False, "return_complex": True}),
    "as real": (X, {"n_fft": 8, "window": WINDOW, "return_complex": False}),
    "of complex numbers": (X.to(torch.complex64), {"n_fft": 8, "hop_length": 2}),
    "of complex numbers as real": (X.to(torch.complex64), {"n_fft": 8, "return_complex": False}),
    "a complex window as real": (X, {"n_fft": 8, "window": WINDOW.to(torch.complex64), "return_complex": False}),
}


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.filterwarnings("ignore")
def test_stft(name):
    x, options = SPECTRA[name]
    mine, eager = stft(x, **options), torch.stft(x, center=False, **options)
    assert torch.equal(mine, eager) and mine.stride() == eager.stride()


GRADIENTS = [
    {}, {"dim": 1}, {"spacing": 2.0, "dim": 1, "edge_order": 2}, {"spacing": (1, 2.5)}, {"dim": (-1,), "spacing": 3},
    {"edge_order": 2}, {"spacing": (torch.arange(9.0), torch.arange(21.0))},
]  # fmt: skip


@pytest.mark.parametrize("options", GRADIENTS, ids=str)
def test_gradient(options):
    for x in (X, (X * 10).long()):
        for mine, eager in zip(gradient(x, **options), torch.gradient(x, **options), strict=True):
            assert torch.equal(mine, eager) and mine.dtype == eager.dtype and mine.stride() == eager.stride()


CHAINS = [
    (3, 4), (3, 4, 5), (9, 2, 9, 2), (2, 9, 2, 9), (2, 2, 2, 2), (7, 3, 8, 2, 6), (2, 8, 3, 9, 4, 5), (6, 5, 4, 3, 2, 7),
]  # fmt: skip


@pytest.mark.parametrize("sizes", CHAINS, ids=str)
def test_multi_dot(sizes):
    torch.manual_seed(0)
    chain = [torch.randn(a, b) for a, b in itertools.pairwise(sizes)]
    if len(chain) > 1:
        for each in (
            chain,
            [chain[0][0], *chain[1:]],
            [*chain[:-1], chain[-1][:, 0]],
            [chain[0][0], *chain[1:-1], chain[-1][:, 0]],
        ):
            assert torch.equal(multi_dot(each), torch.linalg.multi_dot(each))


def test_what_they_refuse():
    for call in (
        lambda of, x: of([x]),
        lambda of, x: of([x, x, x.view(3, 3, 21)]),
        lambda of, x: of([x, x]),
    ):
        with pytest.raises(RuntimeError):
            call(torch.linalg.multi_dot, X)
        with pytest.raises(RuntimeError):
            call(multi_dot, X)
    for options in ({"edge_order": 3}, {"dim": (0, 0)}, {"spacing": (1.0, 2.0, 3.0)}, {"dim": 5}):
        messages = []
        for each in (gradient, torch.gradient):
            with pytest.raises((RuntimeError, IndexError)) as error:
                each(X, **options)
            messages.append(type(error.value))
        assert messages[0] is messages[1]


PROGRAMS = {
    "stft": lambda x: torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True),
    "stft of a row": lambda x: torch.stft(x.reshape(-1), 8, return_complex=True, center=False, onesided=True),
    "gradient": lambda x: torch.gradient(x, dim=1, edge_order=2)[0],
    "multi_dot": lambda x: torch.linalg.multi_dot([x, x.t(), x]),
    "a chain of four": lambda x: torch.linalg.multi_dot([x, x.t(), x, torch.ones(x.shape[1], 3)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_stay_open(name):
    env = ShapeEnv()
    mode = FakeMode(env)
    fake = mode.from_tensor(X, source="x", policy=DimPolicy.DYNAMIC)
    with warnings.catch_warnings(), mode:
        warnings.simplefilter("ignore")
        made = PROGRAMS[name](fake)
        eager = PROGRAMS[name](torch.empty(9, 21))
    assert not env.specializations()
    assert [int(size) for size in made.shape] == list(eager.shape)
    assert [int(step) for step in made.stride()] == list(eager.stride())


BLOCKS = [
    (X, X[0], torch.tensor(3)), (torch.ones(0, 2), torch.ones(2, 2, dtype=torch.int64)), (torch.tensor(1.5), torch.tensor(2)),
    (torch.ones(2, dtype=torch.bool), torch.ones(1, dtype=torch.uint8)), (X.t(), X.to(torch.complex64)), (X,),
]  # fmt: skip


@pytest.mark.parametrize("tensors", BLOCKS, ids=lambda tensors: str([tuple(t.shape) for t in tensors]))
def test_block_diag(tensors):
    mine, eager = block_diag(tensors), torch.block_diag(*tensors)
    assert torch.equal(mine, eager) and mine.dtype == eager.dtype and mine.stride() == eager.stride()


@pytest.mark.parametrize(
    "chain",
    [[torch.ones(2, 3), torch.ones(4, 5)], [torch.ones(2, 3), torch.ones(3, 4), torch.ones(5, 6)], [torch.ones(2), torch.ones(3, 4)],
     [torch.ones(2, 3), torch.ones(3, 4).double()]],
)  # fmt: skip
def test_multi_dot_refuses_in_torchs_words(chain):
    with pytest.raises(RuntimeError) as eager:
        torch.linalg.multi_dot(chain)
    with pytest.raises(RuntimeError) as mine:
        multi_dot(chain)
    assert str(mine.value) == str(eager.value)
