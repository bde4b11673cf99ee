"""Fake tensors as tensors: autograd, views, in-place ops, parameters, constants, devices."""

import gc
import subprocess
import sys
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import symshapes
from symshapes import DataDependentError, DimPolicy, FakeMode, FakeTensor, ShapeEnv, missing_rules, reset_rules
from symshapes.rules import registry
from symshapes.rules.layout import TensorMeta

CUDA_BUILD = torch.backends.cuda.is_built()


@pytest.fixture
def mode():
    return FakeMode()


def test_conversion_keeps_metadata_and_identity(mode):
    t = torch.randn(4, 6)[1:, ::2].t().requires_grad_()
    fake = mode.from_tensor(t, source="x")
    assert type(fake) is FakeTensor and fake.fake_mode is mode
    assert (fake.shape, fake.stride(), fake.storage_offset()) == (t.shape, t.stride(), t.storage_offset())
    assert (fake.dtype, fake.device, fake.requires_grad, fake.is_leaf) == (t.dtype, t.device, True, True)
    assert mode.from_tensor(t) is fake
    assert mode.from_tensor(fake) is fake


def test_changed_tensor_is_converted_anew(mode):
    t = torch.randn(4)
    first = mode.from_tensor(t)
    t.requires_grad_()
    assert mode.from_tensor(t) is not first and mode.from_tensor(t).requires_grad


def test_memo_holds_tensors_weakly(mode):
    t = torch.randn(4)
    mode.from_tensor(t)
    assert mode._converter._fakes
    del t
    assert not mode._converter._fakes and not mode._converter._storages


def test_mode_is_collected_while_real_tensors_live():
    model = nn.Linear(4, 4)
    mode = FakeMode()
    with mode:
        torch.autograd.grad(model(torch.randn(2, 4)).sum(), list(model.parameters()))
    dead = weakref.ref(mode)
    del mode
    gc.collect()
    assert dead() is None


def test_aliases_share_a_storage_key(mode):
    t = torch.randn(4, 4)
    a, b, c = mode.from_tensor(t), mode.from_tensor(t[1]), mode.from_tensor(torch.randn(4))
    assert a.storage_key is b.storage_key and a.storage_key is not c.storage_key
    assert a.view(-1).storage_key is a.storage_key and a.clone().storage_key is not a.storage_key
    assert a.detach().storage_key is a.storage_key


def test_computed_tensor_is_no_leaf(mode):
    t = torch.randn(3, requires_grad=True) * 2
    fake = mode.from_tensor(t)
    assert fake.requires_grad and not fake.is_leaf and fake.grad_fn is not None


def test_parameter_stays_a_parameter(mode):
    fake = mode.from_tensor(nn.Parameter(torch.randn(3)))
    assert isinstance(fake, nn.Parameter) and isinstance(fake, FakeTensor)
    assert not isinstance(mode.from_tensor(torch.randn(3)), nn.Parameter)
    made = nn.Parameter(mode.from_tensor(torch.randn(3)))
    assert isinstance(made, nn.Parameter) and isinstance(made, FakeTensor) and made.requires_grad


def test_gradient_comes_along(mode):
    t = torch.randn(3, requires_grad=True)
    t.sum().backward()
    assert mode.from_tensor(t).grad.shape == (3,)


def test_autograd(mode):
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    with mode:
        out = model(torch.randn(3, 4))
        grads = torch.autograd.grad(out.sum(), list(model.parameters()))
    assert [g.shape for g in grads] == [p.shape for p in model.parameters()]
    assert all(isinstance(g, FakeTensor) for g in grads)


def test_in_place_ops_bump_versions_and_rebase_history(mode):
    x = mode.from_tensor(torch.randn(4, requires_grad=True))
    y = x * 2
    view = y[1:]
    assert view._is_view() and view._base is y
    before = y._version
    assert view.mul_(3) is view
    assert y._version == before + 1 and "CopySlices" in type(y.grad_fn).__name__
    (grad,) = torch.autograd.grad(y.sum(), [x])
    assert grad.shape == (4,)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.add_(1)


def test_saved_tensor_modified_in_place_is_an_error(mode):
    x = mode.from_tensor(torch.randn(4, requires_grad=True))
    y = x.exp()
    z = y.sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(z, [x])


def test_in_place_checks(mode):
    x = mode.from_tensor(torch.zeros(3, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        x.add_(0.5)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.add_(mode.from_tensor(torch.zeros(2, 3, dtype=torch.int64)))


def test_in_place_views_change_the_tensor(mode):
    x = mode.from_tensor(torch.randn(2, 3))
    assert x.t_() is x and x.shape == (3, 2) and x.stride() == (1, 3)
    x.unsqueeze_(0)
    assert x.shape == (1, 3, 2)
    x.squeeze_()
    assert x.shape == (3, 2)
    x.resize_(2, 2)
    assert x.shape == (2, 2) and x.stride() == (2, 1)
    y = mode.from_tensor(torch.randn(5))
    x.set_(y)
    assert x.shape == (5,) and x.storage_key is y.storage_key


def test_out_argument(mode):
    a, out = mode.from_tensor(torch.randn(3)), mode.from_tensor(torch.zeros(3))
    assert torch.add(a, a, out=out) is out


def test_data_is_another_tensor_on_the_same_storage(mode):
    x = mode.from_tensor(torch.randn(3, requires_grad=True))
    assert isinstance(x.data, FakeTensor) and not x.data.requires_grad
    assert x.data.storage_key is x.storage_key


def test_factories_and_constants(mode):
    real = torch.randn(3)
    with mode:
        for t in (torch.zeros(3), torch.arange(4), torch.tensor([1.0, 2.0]), torch.ones_like(real), real + 1):
            assert isinstance(t, FakeTensor)
        assert isinstance(nn.Linear(2, 2).weight, FakeTensor)
        assert torch.arange(0, 10, 3).shape == (4,) and torch.arange(5.0).dtype is torch.float32
    assert not isinstance(torch.zeros(3), FakeTensor)


def test_modes_nest(mode):
    inner = FakeMode()
    with mode:
        with inner:
            assert torch.zeros(1).fake_mode is inner
        with mode:
            assert torch.zeros(1).fake_mode is mode
        assert torch.zeros(1).fake_mode is mode


def test_fakes_of_two_modes_do_not_mix(mode):
    a, b = mode.from_tensor(torch.randn(2)), FakeMode().from_tensor(torch.randn(2))
    with pytest.raises(RuntimeError, match="another FakeMode"):
        a + b


@pytest.mark.parametrize(
    "need",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.sum() > 0),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.masked_select(x > 0),
        lambda x: x.unique(),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: torch.equal(x, x + 1),
        lambda x: float(x[0]),
    ],
)
def test_data_dependent_ops(mode, need):
    with pytest.raises(DataDependentError):
        need(mode.from_tensor(torch.randn(3)))


def test_device_mismatch_is_an_error(mode):
    with mode:
        a, b = torch.zeros(3), torch.zeros(3, device="meta")
        with pytest.raises(RuntimeError, match="at least two devices"):
            a + b


@pytest.mark.skipif(
    torch.cuda.is_available() or not CUDA_BUILD, reason="is about CUDA builds on machines without a GPU"
)
def test_cuda_without_a_gpu(mode):
    with mode:
        x = torch.zeros(2, 3, device="cuda")
        assert x.device == torch.device("cuda:0") and x.is_cuda
        assert torch.tensor([1.0], device="cuda").device.type == "cuda"
        assert (x + torch.ones((), device="cpu")).device.type == "cuda"
        assert x.cpu().device.type == "cpu" and torch.zeros(2).to("cuda").is_cuda
        weight = torch.zeros(4, 3, device="cuda")
        assert nn.functional.gelu(nn.functional.linear(x, weight)).shape == (2, 4)
        q = torch.zeros(2, 2, 4, 8, device="cuda")
        assert nn.functional.scaled_dot_product_attention(q, q, q).is_cuda
    assert not torch.cuda.is_initialized()


@pytest.mark.skipif(not CUDA_BUILD, reason="needs the device guards of a CUDA build")
def test_cuda_autograd_graph_without_a_gpu(mode):
    with mode:
        x = torch.zeros(2, 3, device="cuda", requires_grad=True)
        assert (x * 2).sum().grad_fn is not None
    if not torch.cuda.is_available():
        assert not torch.cuda.is_initialized()


def test_lazy_conjugation(mode):
    x = mode.from_tensor(torch.randn(3, dtype=torch.complex64))
    assert x.conj().is_conj() and x.conj().storage_key is x.storage_key
    assert not x.conj().resolve_conj().is_conj()
    assert (x.conj() * 2).dtype is torch.complex64 and torch.view_as_real(x).shape == (3, 2)
    assert x.conj().imag.is_neg()


def test_rules_are_memoised_by_metadata(mode):
    calls = []

    def counting(self: TensorMeta) -> TensorMeta:
        calls.append(self)
        return self

    op = torch.ops.aten.sinc.default
    before = registry.RULES[op]
    try:
        symshapes.register_rule(op)(counting)
        reset_rules()
        for size in (2, 2, 3, 2):
            mode.from_tensor(torch.randn(size)).sinc()
        assert len(calls) == 2
    finally:
        registry.RULES[op] = before
        reset_rules()


def test_memo_tells_numbers_apart(mode):
    x = mode.from_tensor(torch.zeros(3, dtype=torch.int64))
    assert [(x + n).dtype for n in (1, 1.0, True)] == [torch.int64, torch.float32, torch.int64]
    try:
        torch.set_default_dtype(torch.float64)
        assert (x + 1.0).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_op_without_a_rule_falls_to_its_meta_kernel(mode):
    reset_rules()
    x = mode.from_tensor(torch.randn(3, 3))
    assert F.rrelu(x, training=True).shape == (3, 3)
    assert sum(missing_rules().values()) >= 1
    reset_rules()
    assert not missing_rules()


def test_custom_op_with_a_meta_kernel(mode):
    with torch.library._scoped_library("symshapes_test", "FRAGMENT") as library:
        library.define("double(Tensor x) -> Tensor")
        library.impl("double", lambda x: torch.empty(x.shape[0] * 2), "Meta")
        x = mode.from_tensor(torch.randn(3))
        assert torch.ops.symshapes_test.double(x).shape == (6,)


def test_repr_runs_nothing(mode):
    fake = mode.from_tensor(torch.randn(2, 3, requires_grad=True))
    assert repr(fake) == "FakeTensor(float32[2, 3], cpu, requires_grad=True)"


PROGRAM = """
import sys, torch
from torch import nn
from symshapes import FakeMode, missing_rules

model = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(2),
    nn.TransformerEncoderLayer(49, 7, 32, batch_first=True), nn.LSTM(49, 8, batch_first=True),
)
with FakeMode():
    out, _ = model(torch.randn(2, 3, 16, 16))
    loss = nn.functional.cross_entropy(out.flatten(1), torch.zeros(2, dtype=torch.int64))
    torch.autograd.grad(loss, list(model.parameters()))
assert not missing_rules(), missing_rules()
assert "torch._dynamo" not in sys.modules
"""


def test_a_common_model_does_not_import_torchs_own_compiler():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)


def test_signatures_of_calls():
    mode = FakeMode()
    x, y = mode.from_tensor(torch.ones(2, 3)), mode.from_tensor(torch.ones(2, 3))
    assert mode.signature([x, 1, [y, 2.0]], False) == mode.signature([y, 1, [x, 2.0]], False)
    for other in ([x, True, [y, 2.0]], [x, 1, [y, 2]], [x, 1, (y, 2.0)], [x.t(), 1, [y, 2.0]]):
        assert mode.signature(other, False) != mode.signature([x, 1, [y, 2.0]], False)
    needs = mode.from_tensor(torch.ones(2, 3, requires_grad=True))
    assert mode.signature([needs], True) is None
    assert mode.signature([needs], False) is not None
    assert mode.signature([mode.from_tensor(torch.tensor(1))], False) is None
    assert mode.signature([(slice(1, None), None)], False) == mode.signature([(slice(1, None), None)], False)
    assert mode.signature([slice(1, None)], False) != mode.signature([slice(1, 2)], False)
    assert mode.signature([slice(mode.from_tensor(torch.tensor(1)))], False) is None
    assert mode.signature([FakeMode().from_tensor(torch.ones(2))], False) is None
    assert mode.signature([object()], False) is None
    symbolic = FakeMode(ShapeEnv())
    sized = symbolic.from_tensor(torch.ones(4, 3), source="x", policy=DimPolicy.DYNAMIC)
    assert symbolic.signature([sized], False) is None


def test_another_of_the_same_metadata():
    mode = FakeMode()
    x = mode.from_tensor(torch.ones(2, 3).t())
    other = mode.another(mode.metadata(x))
    assert (other.shape, other.stride(), other.dtype, other.device) == (x.shape, x.stride(), x.dtype, x.device)
    assert other.storage_key != x.storage_key
    assert other.fake_mode is mode


def test_a_mode_that_forgot_its_tensors_goes_at_once() -> None:
    """Each capture has one: not only once cycles are looked for."""
    real, mode = torch.ones(2), FakeMode()
    with mode:
        mode.from_tensor(real).to(torch.float64, copy=True)
    gone = [weakref.ref(mode), weakref.ref(mode._converter._storages._entries)]
    mode.forget_tensors()
    gc.collect()
    gc.disable()
    try:
        del mode
        assert [each() for each in gone] == [None, None]
    finally:
        gc.enable()
