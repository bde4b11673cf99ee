"""Modules: their classes, parts, hooks, flags."""

from __future__ import annotations

import torch
import torch.nn.utils.parametrize as parametrize
from torch import nn

from .table import between, changed, family, matrix, removed

program = family("modules")


class Block(nn.Module):
    def __init__(self, k=2.0):
        super().__init__()
        self.k = k
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("shift", torch.tensor(0.5))

    def forward(self, x):
        return x * self.weight * self.k + self.shift


class Other(Block):
    def forward(self, x):
        return x - self.weight


class Parent(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), nn.Sequential(Block(3.0), nn.ReLU())
        self.extras = nn.ModuleDict({"a": nn.Tanh()})
        self.items = nn.ModuleList([nn.Sigmoid()])

    def forward(self, x):
        x = self.second(self.first(x))
        for item in self.items:
            x = item(x)
        for name, item in self.extras.items():
            x = item(x) + len(name)
        return x


@program
def class_of_module(call):
    block = Block()
    call.across(changed(block, "__class__", Other), block, matrix())


@program
def class_of_nested_module(call):
    parent = Parent()
    call.across(
        [changed(parent.first, "__class__", Other), changed(parent.second[0], "__class__", Other), changed(parent.second[1], "__class__", nn.Sigmoid)],
        parent, matrix(),
    )  # fmt: skip


@program
def forward_on_instance(call):
    block = Block()
    call.across(changed(block, "forward", lambda x: x * 9), block, matrix())


@program
def forward_on_nested_instance(call):
    parent = Parent()
    call.across(changed(parent.first, "forward", lambda x: x * 9), parent, matrix())


@program
def forward_on_class(call):
    parent = Parent()
    call.across(
        [changed(Block, "forward", lambda self, x: x * self.k), changed(Block, "forward", Other.forward)],
        parent,
        matrix(),
    )


@program
def attributes(call):
    block = Block()
    call.across(
        [changed(block, "k", 5.0), changed(block, "k", 5), changed(block, "k", torch.tensor(3.0)), removed(block, "k")],
        block,
        matrix(),
    )


@program
def submodule_replaced(call):
    parent = Parent()
    call.across(
        [
            changed(parent, "first", Other()),
            changed(parent, "first", nn.Identity()),
            changed(parent.second, "1", nn.GELU()),
        ],
        parent,
        matrix(),
    )


@program
def submodule_lists(call):
    parent = Parent()
    call(parent, matrix())
    parent.items.append(nn.ReLU())
    call(parent, matrix())
    parent.items[0] = nn.Tanh()
    call(parent, matrix())
    parent.extras["bb"] = nn.Identity()
    call(parent, matrix())
    del parent.extras["a"]
    call(parent, matrix())
    parent.second.append(Block(4.0))
    call(parent, matrix())


@program
def sequence_reordered(call):
    model = nn.Sequential(Block(), nn.ReLU())
    call(model, matrix())
    model._modules = dict(reversed(model._modules.items()))
    call(model, matrix())


@program
def forward_hook(call):
    parent, handles = Parent(), []
    call.across(
        [
            between(lambda: handles.append(parent.first.register_forward_hook(lambda m, a, out: out * 2)), lambda: handles.pop().remove()),
            between(lambda: handles.append(parent.register_forward_hook(lambda m, a, out: out * 3)), lambda: handles.pop().remove()),
        ],
        parent, matrix(),
    )  # fmt: skip


@program
def forward_pre_hook(call):
    parent, handles = Parent(), []
    call.across(
        between(lambda: handles.append(parent.first.register_forward_pre_hook(lambda m, a: (a[0] * 2,))), lambda: handles.pop().remove()),
        parent, matrix(),
    )  # fmt: skip


@program
def hook_with_keywords(call):
    block, handles = Block(), []
    call.across(
        between(
            lambda: handles.append(block.register_forward_hook(lambda m, a, k, out: out * 2, with_kwargs=True, always_call=True)),
            lambda: handles.pop().remove(),
        ),
        block, matrix(),
    )  # fmt: skip


@program
def hook_replaced_in_place(call):
    block = Block()
    handle = block.register_forward_hook(lambda m, a, out: out * 2)
    call.across(changed(block._forward_hooks, handle.id, lambda m, a, out: out * 7), block, matrix())


@program
def hook_records(call):
    block, seen = Block(), []
    call.state = seen
    call(block, matrix())
    handle = block.register_forward_hook(lambda m, a, out: seen.append(float(out.sum())))
    call(block, matrix())
    handle.remove()
    call(block, matrix())


@program
def backward_hook(call):
    block, handles = Block(), []

    def f(x):
        return block(x)

    def run(x):
        block.weight.grad = None
        call(f, x).sum().backward()
        call.note(block.weight.grad, x.grad)

    run(matrix().requires_grad_())
    handles.append(block.register_full_backward_hook(lambda m, gi, go: tuple(g if g is None else g * 2 for g in gi)))
    run(matrix().requires_grad_())
    handles.pop().remove()
    run(matrix().requires_grad_())


@program
def parameter_hook(call):
    block = Block()

    def run():
        block.weight.grad = None
        call(block, matrix()).sum().backward()
        call.note(block.weight.grad)

    run()
    handle = block.weight.register_hook(lambda g: g * 5)
    run()
    handle.remove()
    run()


@program
def training_flag(call):
    class Mode(nn.Module):
        def forward(self, x):
            return x * (2 if self.training else 3)

    model = nn.Sequential(Mode(), nn.Dropout(0.5))
    call(model.eval(), matrix())
    call(model.train(), matrix())
    model[1].eval()
    call(model, matrix())
    call(model.eval(), matrix())


@program
def requires_grad_of_parameter(call):
    block = Block()
    call.across([changed(block.weight, "requires_grad", False)], block, matrix())


@program
def buffer_content_and_replacement(call):
    block = Block()
    call(block, matrix())
    block.shift.fill_(2.0)
    call(block, matrix())
    block.shift = torch.tensor([1.0, 2.0, 3.0])
    call(block, matrix())
    block.shift = None
    call(block, matrix())
    block.register_buffer("shift", torch.tensor(1, dtype=torch.int64))
    call(block, matrix())


@program
def buffer_written_by_the_program(call):
    class Count(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x):
            self.n += 1
            self.last = x.sum()
            return x * self.n

    model = Count()
    call.state = model, model.n
    call(model, matrix())
    call(model, matrix())
    model.n = torch.tensor(10.0)
    call(model, matrix())
    call.note(dict(model.named_buffers()))


@program
def batch_norm_statistics(call):
    norm = nn.BatchNorm1d(3)
    call(norm, matrix())
    call(norm, matrix())
    call.note(norm.running_mean, norm.num_batches_tracked)
    norm.momentum = None
    call(norm, matrix())
    norm.track_running_stats = False
    norm.running_mean = norm.running_var = None
    call(norm, matrix())
    call.note(norm.num_batches_tracked)


@program
def parameter_registered_again(call):
    block = Block()
    call(block, matrix())
    block.weight = nn.Parameter(torch.tensor([5.0, 6.0, 7.0]))
    call(block, matrix())
    block.weight = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    call(block, matrix())
    del block.weight
    block.weight = torch.tensor([1.0, 1.0, 2.0])
    call(block, matrix())
    del block.weight
    call(block, matrix())


@program
def parameter_data_replaced(call):
    block = Block()
    call(block, matrix())
    block.weight.data = torch.tensor([5.0, 6.0, 7.0])
    call(block, matrix())
    block.weight.data = torch.tensor([[5.0], [6.0]])
    call(block, matrix())


@program
def parameter_shared(call):
    parent = nn.ModuleList([Block(), Block()])

    def f(x):
        return parent[1](parent[0](x)) * (2 if parent[0].weight is parent[1].weight else 3)

    call(f, matrix())
    own = parent[1].weight
    parent[1].weight = parent[0].weight
    call(f, matrix())
    parent[1].weight = own
    call(f, matrix())


@program
def parametrization(call):
    class Double(nn.Module):
        def forward(self, weight):
            return weight * 2

    block = Block()
    call(block, matrix())
    parametrize.register_parametrization(block, "weight", Double())
    call(block, matrix())
    parametrize.register_parametrization(block, "weight", Double())
    call(block, matrix())
    parametrize.remove_parametrizations(block, "weight")
    call(block, matrix())


@program
def dict_of_module_replaced(call):
    block = Block()
    fresh = dict(vars(Block(7.0)))
    call.across(changed(block, "__dict__", fresh), block, matrix())


@program
def parameters_dict_replaced(call):
    block = Block()
    call.across(changed(vars(block), "_parameters", {"weight": nn.Parameter(torch.ones(3))}), block, matrix())


@program
def moved_to_double(call):
    block = Block()
    call(block, matrix())
    call(block.double(), matrix())
    call(block.float(), matrix())


@program
def state_loaded(call):
    block, state = Block(), Block().state_dict()
    call(block, matrix())
    state["weight"] = torch.tensor([9.0, 8.0, 7.0])
    block.load_state_dict(state)
    call(block, matrix())
    block.load_state_dict(state, assign=True)
    call(block, matrix())


@program
def linear_layer_parts(call):
    layer = nn.Linear(3, 2)
    nn.init.constant_(layer.weight, 0.5)
    nn.init.constant_(layer.bias, 0.25)
    call.across(
        [changed(layer, "bias", None), changed(layer, "weight", nn.Parameter(torch.ones(4, 3)))], layer, matrix()
    )


@program
def constants_of_library_layer(call):
    layer = nn.LeakyReLU(0.5)
    norm = nn.LayerNorm(3)
    call.across(
        [changed(layer, "negative_slope", 0.1), changed(norm, "eps", 1.0)], nn.Sequential(layer, norm), matrix()
    )


@program
def module_call_counts(call):
    class Count(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    model = Count()
    call.state = model
    for _ in range(3):
        call(model, matrix())
    model.calls = 10
    call(model, matrix())
