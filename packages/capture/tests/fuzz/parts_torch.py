"""Modules, hooks, parameters, tensors, modes."""

from __future__ import annotations

from .parts import Part, part

part(Part(
    "net",
    classes="""
class Part_(nn.Module):
    k = $v
    def __init__(self, act):
        super().__init__()
        self.act = act
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
    def forward(self, x):
        return use(self.act(x) * self.weight, self.k)
class Counting:
    def forward(self, x):
        self.calls = getattr(self, 'calls', 0) + 1
        return super().forward(x)
class Counted(Counting, Part_):
    pass
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Part_($f), Counted($f)
        self.rest = nn.Sequential(Scale($n), nn.ReLU())
        self.extras = nn.ModuleDict({'a': nn.Tanh()})
        self.listed = nn.ModuleList([Scale(3.0), nn.Sigmoid()])
        self.register_buffer('buffer', torch.tensor(0.5))
        self.plain = $v
    def forward(self, x):
        x = self.rest(self.second(self.first(x)))
        for layer in self.listed:
            x = layer(x) * 0.5
        for name, layer in self.extras.items():
            x = layer(x) + len(name)
        return use(x, self.plain) + self.buffer
""",
    make="H.net = Net()",
    places=("H.net.plain", "H.net.first.act", "H.net.first.k", "H.net.buffer", "H.net.rest[0].k", "H.net.first", "H.net.listed[0]"),
    reads=(
        "x = H.net(x)",
        "x = H.net.first(x)",
        "x = H.net.second(x)",
        "x = H.net.rest(x)",
        "x = H.net.forward(x)",
        "for layer in H.net.children():\n    if isinstance(layer, (Part_, nn.Sequential)):\n        x = layer(x)",
        "out.append((H.net.training, H.net.first.training, len(H.net.rest), 'a' in H.net.extras, len(list(H.net.modules()))))",
        "out.append([name for name, _ in H.net.named_parameters()])",
        "x = x + sum(p.sum() for p in H.net.parameters())",
        "x = x * len(H.net.listed) + len(H.net.extras)",
        "out.append([type(m).__name__ for m in H.net.modules()])",
        "out.append((H.net.first.weight is H.net.second.weight, H.net.first.weight.requires_grad, hasattr(H.net, 'other')))",
        "x = H.net.get_submodule('rest.0')(x)",
        "H.net.buffer.add_(1)",
        "H.net.buffer = H.net.buffer + 1",
        "x = x + H.net.rest[0].weight",
        "H.net.steps = getattr(H.net, 'steps', 0) + 1",
        "x = x if H.net.training else x * 2",
        "x = x + sum(b.sum() for b in H.net.state_dict().values())",
        "x = [layer(x) for layer in H.net.rest][-1]",
    ),
    changes=(
        "H.net.plain = $v", "del H.net.plain", "H.net.eval()", "H.net.train()", "H.net.first.training = False", "H.net.first = Part_($f)", "H.net.first = Counted($f)", "H.net.first = nn.Identity()", "H.net.first = H.net.second", "H.net.first.act = $f",
        "del H.net.first.act", "H.net.first.__class__ = Counted", "H.net.first.__class__ = Scale", "H.net.rest[1].__class__ = nn.Tanh", "H.net.rest[0].__class__ = Shift", "H.net.__class__ = Part_", "H.net.first.forward = $f", "del H.net.first.forward", "H.net.forward = lambda x: x * 21",
        "Part_.forward = lambda self, x: x - self.weight", "Part_.forward = Scale.forward", "Counting.forward = lambda self, x: x * 2", "Counted.forward = lambda self, x: x + 33", "del Counted.forward", "Part_.k = $v", "Counted.k = $v", "H.net.first.k = $v", "H.net.second.k = $v", "Part_.__call__ = lambda self, x: x * 17",
        "del Part_.__call__", "H.net.rest.append(Scale(4.0))", "H.net.rest[0] = nn.ReLU()", "H.net.rest[1] = $f", "del H.net.rest[0]", "H.net.rest._modules = dict(reversed(H.net.rest._modules.items()))", "H.net.extras['b'] = nn.ReLU()", "del H.net.extras['a']", "H.net.listed.append(nn.ReLU())",
        "H.net.listed[0] = Shift()", "H.net.listed.insert(0, nn.Tanh())", "H.net.listed[0].k = $v", "H.net.buffer = torch.tensor(2.5)", "H.net.buffer.fill_(3)", "del H.net.buffer", "H.net.register_buffer('buffer', torch.ones(3))", "H.net.buffer = H.net.first.weight.detach()", "H.net.first.weight = H.net.second.weight",
        "H.net.first.weight = nn.Parameter(torch.ones(3))", "H.net.first.weight.data = torch.ones(3) * 4", "H.net.first.weight.requires_grad_(False)", "H.net.requires_grad_(False)", "H.net.double()", "H.net.float()", "H.net.half().float()", "H.net.first.weight = None",
        "H.net.load_state_dict({k: v + 1 for k, v in H.net.state_dict().items()})", "H.net = copy.deepcopy(H.net)", "H.net = Net()", "del H.net; gc.collect(); H.net = Net()", "H.net.first.weight.data.mul_(2)", "H.net.rest = nn.Sequential(nn.ReLU())", "H.net.rest = nn.Sequential(*H.net.rest)", "H.net.other = nn.ReLU()", "Net.__getattr__ = lambda self, name: 4 if name == 'other' else nn.Module.__getattr__(self, name)",
        "nn.utils.parametrize.register_parametrization(H.net.first, 'weight', nn.Tanh())", "nn.utils.parametrize.remove_parametrizations(H.net.first, 'weight')", "nn.utils.parametrizations.weight_norm(H.net.rest[0], 'weight', dim=None)", "H.net._modules['first'] = nn.ReLU()", "H.net.__dict__['first'] = double", "H.net._buffers['buffer'] = torch.tensor(4.5)",
        "H.net.first.apply(lambda m: setattr(m, 'k', 3))", "H.net.zero_grad()", "H.net.first.weight.grad = torch.ones(3)", "H.net.first, H.net.second = H.net.second, H.net.first",
        "H.net.add_module('first', nn.Tanh())", "Net.first = property(lambda self: double)", "del Net.first", "H.net.training = 'yes'",
    ),
))  # fmt: skip

part(Part(
    "hooked",
    classes="""
def timed(module, args, result):
    LOG.append(type(module).__name__)
    return result * 2
def before(module, args):
    return (args[0] + 1,)
handles = []
def unhook():
    handles.pop().remove()
""",
    make="H.hooked = nn.Sequential(Scale(2.0), nn.ReLU())",
    places=("H.hooked[0].k",),
    reads=(
        "x = H.hooked(x)",
        "x = H.hooked[0](x)",
        "out.append((len(H.hooked[0]._forward_hooks), len(H.hooked._forward_pre_hooks)))",
        "x = H.hooked[0].forward(x)",
        "handle = H.hooked[0].register_forward_hook(timed)\nx = H.hooked(x)\nhandle.remove()",
    ),
    changes=(
        "handles.append(H.hooked.register_forward_hook(timed))", "handles.append(H.hooked[0].register_forward_hook(timed))", "handles.append(H.hooked[0].register_forward_pre_hook(before))", "handles.append(H.hooked.register_forward_pre_hook(before))",
        "handles.append(H.hooked[0].register_forward_hook(lambda m, a, r: r + 5))", "handles.append(H.hooked[0].register_forward_hook(timed, prepend=True))", "handles.append(H.hooked[0].register_forward_hook(lambda m, a, k, r: r * 3, with_kwargs=True))",
        "handles.append(H.hooked[0].register_forward_pre_hook(lambda m, a, k: (a, k), with_kwargs=True))", "handles.append(nn.modules.module.register_module_forward_hook(lambda m, a, r: r + 1))", "handles.append(nn.modules.module.register_module_forward_pre_hook(before))",
        "handles.append(H.hooked[0].register_full_backward_hook(lambda m, i, o: None))", "unhook()", "unhook()", "unhook()", "H.hooked[0]._forward_hooks.clear()", "timed.__code__ = (lambda m, a, r: r - 1).__code__", "H.hooked[0]._forward_hooks[-1] = timed",
        "handles.append(H.hooked.register_forward_hook(lambda m, a, r: r * 2, always_call=True))", "H.hooked = copy.deepcopy(H.hooked)", "handles.append(H.hooked[0].register_forward_hook(lambda m, a, r: use(r, $v)))", "H.hooked[0].forward = double",
        "H.hooked[0]._forward_hooks = collections.OrderedDict()", "before.__defaults__ = (1,)", "handles.append(H.hooked[0].register_state_dict_pre_hook(lambda *a: None))",
    ),
))  # fmt: skip

part(Part(
    "weight",
    make="H.weight = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))\nH.tensor = $t\nH.view = H.weight.data[1:]\nH.same = H.weight",
    places=("H.tensor",),
    reads=(
        "x = x * H.weight",
        "x = x + H.tensor",
        "x = x + H.view.sum()",
        "out.append((H.same is H.weight, H.weight.requires_grad, H.tensor.dtype, tuple(H.weight.shape), H.tensor.is_leaf))",
        "out.append((H.weight.grad is None, H.weight.stride(), H.tensor.numel(), isinstance(H.tensor, nn.Parameter), H.tensor.dim()))",
        "H.tensor = H.tensor + 1",
        "H.view.add_(1)",
        "x = x + H.weight.detach() * 2",
        "with torch.no_grad():\n    H.weight.mul_(1.5)",
        "x = x.to(H.tensor.dtype) + 1",
        "x = x * H.weight.data",
        "out.append((H.tensor.storage_offset(), H.tensor.is_contiguous(), hasattr(H.tensor, 'tag'), H.weight._version >= 0))",
        "if H.tensor.dtype == torch.float32:\n    x = x * 3",
        "y = H.weight.view(3, 1)\nx = (y * x).sum(0)",
        "x = use(x, getattr(H.tensor, 'tag', 2))",
        "out.append(type(H.tensor).__name__)",
    ),
    changes=(
        "H.weight = nn.Parameter(torch.ones(3))", "H.weight.data = torch.ones(3) * 2", "H.weight.data = torch.ones(3, dtype=torch.float64)", "H.weight.data = torch.ones(1)", "H.weight.requires_grad_(False)", "H.weight.requires_grad_(True)", "H.tensor = $t", "H.tensor = H.weight",
        "H.tensor = H.view", "H.same = nn.Parameter(torch.ones(3))", "H.weight = H.same", "H.view = H.weight.data[:2]", "H.view = torch.ones(2)", "H.view.fill_(4)", "H.tensor.tag = $v", "H.tensor = H.tensor.double()", "H.tensor.requires_grad_(True)", "H.tensor.data = torch.ones(3) * 5",
        "H.weight.grad = torch.ones(3)", "H.weight.grad = None", "H.tensor = H.tensor.clone()", "H.tensor.set_(torch.ones(3))", "H.tensor.resize_(3).fill_(2)", "H.weight = None", "H.tensor = torch.nn.Buffer(torch.ones(3))", "H.tensor = torch.ones(3, dtype=torch.complex64).conj()", "H.tensor = torch.ones(3).to_sparse()",
        "H.weight.__class__ = type('P', (nn.Parameter,), {})", "H.tensor.__class__ = type('T', (torch.Tensor,), {'__add__': lambda self, other: 3, '__radd__': lambda self, other: other})", "H.tensor = H.tensor.as_subclass(type('T', (torch.Tensor,), {}))", "H.weight.data.add_(1)",
        "del H.tensor.tag", "H.weight.register_hook(lambda g: g * 2)", "with torch.inference_mode(): H.tensor = torch.ones(3)", "H.tensor = torch.ones(6)[3:]", "H.tensor = torch.ones(6)[::2]", "H.weight.data = H.weight.data[::1]", "H.tensor = torch.ones(1, 3)", "H.tensor = torch.ones(2, 3)", "H.tensor = 3",
    ),
))  # fmt: skip

part(Part(
    "mode",
    make="H.mode_layer = nn.Linear(3, 3)",
    reads=(
        "out.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()))",
        "x = x + torch.ones(3) * 2",
        "x = x.int() * 1.5 + 0.5",
        "x = H.mode_layer(x.float())",
        "x = x * (2 if torch.is_autocast_enabled('cpu') else 3)",
        "out.append(torch.get_autocast_dtype('cpu'))",
        "out.append((torch.are_deterministic_algorithms_enabled(), torch.get_num_threads() > 0, torch.backends.cuda.flash_sdp_enabled()))",
        "with torch.autocast('cpu'):\n    x = torch.matmul(x.float(), torch.eye(3)).float()",
        "with torch.enable_grad():\n    x = H.mode_layer(x.float())",
        "x = torch.tensor(1.5) + torch.full((3,), 2.5) + x",
        "x = x + torch.rand(3)",
        "torch.set_grad_enabled(not torch.is_grad_enabled())",
        "x = x + torch.empty(3, device='cpu').fill_(2)",
        "out.append(torch.tensor(2.0).dtype)",
        "x = x + (torch.arange(3) / 2)",
        "out.append(torch.get_float32_matmul_precision())",
    ),
    changes=(
        "torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)", "torch.set_default_dtype(torch.float16)", "torch.set_grad_enabled(False)", "torch.set_grad_enabled(True)", "torch.use_deterministic_algorithms(True)", "torch.use_deterministic_algorithms(False)",
        "torch.use_deterministic_algorithms(True, warn_only=True)", "torch.set_autocast_enabled('cpu', True)", "torch.set_autocast_enabled('cpu', False)", "torch.set_autocast_dtype('cpu', torch.float16)", "torch.set_autocast_dtype('cpu', torch.bfloat16)", "torch.manual_seed(3)", "torch.rand(2)",
        "torch.backends.cuda.enable_flash_sdp(False)", "torch.backends.cuda.enable_flash_sdp(True)", "torch.set_float32_matmul_precision('high')", "torch.set_float32_matmul_precision('highest')", "H.mode_layer.double()", "H.mode_layer.float()", "H.mode_layer.requires_grad_(False)",
    ),
))  # fmt: skip
