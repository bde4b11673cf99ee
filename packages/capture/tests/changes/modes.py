"""Modes and switches of torch and of Python."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .table import between, family, matrix, vector

program = family("modes")


def within(call, f, *modes, args=None):
    """``f`` outside, within each mode, and outside again."""
    for mode in modes:
        x = (matrix(),) if args is None else args
        call(f, *x)
        with mode:
            call(f, *x)
            call(f, *x)
        call(f, *x)


@program
def gradient_mode(call):
    weight = vector().requires_grad_()
    within(
        call,
        lambda x: (x * weight, torch.is_grad_enabled()),
        torch.no_grad(),
        torch.inference_mode(),
        torch.set_grad_enabled(True),
    )


@program
def gradient_mode_left_switched(call):
    weight = vector().requires_grad_()

    def f(x):
        torch.set_grad_enabled(not torch.is_grad_enabled())
        return x * weight

    call(f, vector())
    call(f, vector())
    torch.set_grad_enabled(True)


@program
def inference_mode_asked(call):
    within(call, lambda x: x * (2 if torch.is_inference_mode_enabled() else 3), torch.inference_mode(), torch.no_grad())


@program
def inference_mode_result(call):
    within(call, lambda x: x * 2, torch.inference_mode(), torch.inference_mode(False))


@program
def autocast(call):
    weight = matrix()
    within(
        call, lambda x: x @ weight.t(), torch.autocast("cpu", dtype=torch.bfloat16), torch.autocast("cpu", dtype=torch.float16),
        torch.autocast("cpu", enabled=False),
    )  # fmt: skip


@program
def autocast_asked(call):
    within(
        call, lambda x: x * (2 if torch.is_autocast_enabled("cpu") else 3) * (5 if torch.get_autocast_dtype("cpu") == torch.float16 else 7),
        torch.autocast("cpu", dtype=torch.bfloat16), torch.autocast("cpu", dtype=torch.float16),
    )  # fmt: skip


@program
def autocast_dtype_alone(call):
    before = torch.get_autocast_dtype("cpu")

    def f(x):
        return x * (2 if torch.get_autocast_dtype("cpu") == before else 3)

    call.across(
        between(
            lambda: torch.set_autocast_dtype("cpu", torch.float16), lambda: torch.set_autocast_dtype("cpu", before)
        ),
        f,
        vector(),
    )


@program
def autocast_dtype_used_later(call):
    before = torch.get_autocast_dtype("cpu")

    def f(x):
        with torch.autocast("cpu"):
            return x @ x.t()

    call.across(
        between(
            lambda: torch.set_autocast_dtype("cpu", torch.float16), lambda: torch.set_autocast_dtype("cpu", before)
        ),
        f,
        matrix(),
    )


@program
def autocast_cache(call):
    before = torch.is_autocast_cache_enabled()

    def f(x):
        return x * (2 if torch.is_autocast_cache_enabled() else 3)

    call.across(
        between(lambda: torch.set_autocast_cache_enabled(not before), lambda: torch.set_autocast_cache_enabled(before)),
        f,
        vector(),
    )


@program
def default_dtype(call):
    before = torch.get_default_dtype()

    def f(x):
        return torch.ones(3) * 2, x.int() * 1.5, torch.tensor(1.5), torch.get_default_dtype()

    call.across(
        between(lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(before)), f, vector()
    )


@program
def default_device(call):
    def f(x):
        return torch.ones(3).device.type, x + 1

    call.across(between(lambda: torch.set_default_device("meta"), lambda: torch.set_default_device(None)), f, vector())
    within(call, f, torch.device("meta"))


@program
def deterministic_algorithms(call):
    def f(x):
        return x * (2 if torch.are_deterministic_algorithms_enabled() else 3)

    within(
        call, f,
        between(lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False)),
        between(lambda: torch.use_deterministic_algorithms(True, warn_only=True), lambda: torch.use_deterministic_algorithms(False)),
    )  # fmt: skip


@program
def deterministic_warn_only(call):
    def f(x):
        return x * (2 if torch.is_deterministic_algorithms_warn_only_enabled() else 3)

    within(
        call, f,
        between(lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False)),
        between(lambda: torch.use_deterministic_algorithms(True, warn_only=True), lambda: torch.use_deterministic_algorithms(False)),
    )  # fmt: skip


def switch(call, read, write):
    before = read()
    call.across(between(lambda: write(not before), lambda: write(before)), lambda x: x * (2 if read() else 3), vector())


@program
def flash_attention_switch(call):
    switch(call, torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp)


@program
def memory_efficient_attention_switch(call):
    switch(call, torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.enable_mem_efficient_sdp)


@program
def math_attention_switch(call):
    switch(call, torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp)


@program
def cudnn_attention_switch(call):
    switch(call, torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp)


@program
def attention_kernel_context(call):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.arange(8.0).reshape(1, 1, 2, 4)

    def f(q):
        return F.scaled_dot_product_attention(q, q, q) * (2 if torch.backends.cuda.flash_sdp_enabled() else 3)

    within(call, f, sdpa_kernel(SDPBackend.MATH), sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]), args=(q,))


def flag(call, owner, name, *values):
    before = getattr(owner, name)

    def f(x):
        return x * (2 if getattr(owner, name) == before else 3)

    call.across(
        [between(lambda v=v: setattr(owner, name, v), lambda: setattr(owner, name, before)) for v in values],
        f,
        vector(),
    )


def cudnn_flag(call, name):
    """By the context manager: torch's own test helpers, where imported, forbid the setters for the process."""
    before = {each: getattr(torch.backends.cudnn, each) for each in ("enabled", "benchmark", "deterministic")}

    def f(x):
        return x * (2 if getattr(torch.backends.cudnn, name) == before[name] else 3)

    within(call, f, torch.backends.cudnn.flags(**{**before, name: not before[name]}))


@program
def cudnn_benchmark(call):
    cudnn_flag(call, "benchmark")


@program
def cudnn_deterministic(call):
    cudnn_flag(call, "deterministic")


@program
def cudnn_enabled(call):
    cudnn_flag(call, "enabled")


@program
def tensor_float_32(call):
    flag(call, torch.backends.cuda.matmul, "allow_tf32", not torch.backends.cuda.matmul.allow_tf32)


@program
def reduced_precision_reduction(call):
    flag(call, torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", False)


@program
def mkldnn_flags(call):
    def f(x):
        return x * (2 if torch._C._get_mkldnn_enabled() else 3)

    within(call, f, torch.backends.mkldnn.flags(enabled=False))


@program
def matmul_precision(call):
    before = torch.get_float32_matmul_precision()

    def f(x):
        return x * len(torch.get_float32_matmul_precision())

    call.across(
        between(lambda: torch.set_float32_matmul_precision("high"), lambda: torch.set_float32_matmul_precision(before)),
        f,
        vector(),
    )


@program
def flush_of_denormals(call):
    def f(x):
        return x * 1e-39

    call.across(between(lambda: torch.set_flush_denormal(True), lambda: torch.set_flush_denormal(False)), f, vector())


@program
def anomaly_mode(call):
    within(call, lambda x: x * (2 if torch.is_anomaly_enabled() else 3), torch.autograd.detect_anomaly(check_nan=False))


@program
def number_of_threads(call):
    before = torch.get_num_threads()

    def f(x):
        return x * torch.get_num_threads()

    call.across(between(lambda: torch.set_num_threads(before + 1), lambda: torch.set_num_threads(before)), f, vector())


@program
def print_options(call):
    def f(x):
        return x + 1, str(x)

    call.across(
        between(lambda: torch.set_printoptions(precision=1), lambda: torch.set_printoptions(profile="default")),
        f,
        vector(),
    )


@program
def saved_tensor_hooks(call):
    weight, seen = vector().requires_grad_(), []
    call.state = seen

    def pack(t):
        seen.append(1)
        return t

    within(call, lambda x: x * weight, torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t))


@program
def dispatch_mode(call):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen = []
    call.state = seen
    within(call, lambda x: (x + 1).sum(), Log())


@program
def function_mode(call):
    from torch.overrides import TorchFunctionMode

    class Double(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.relu else result

    within(call, lambda x: torch.relu(x) + 1, Double())


@program
def function_mode_asked(call):
    from torch.overrides import BaseTorchFunctionMode

    within(call, lambda x: x * (2 if torch._C._len_torch_function_stack() else 3), BaseTorchFunctionMode())


@program
def torch_function_disabled(call):
    class Tagged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {})) * 5

    x = vector().as_subclass(Tagged)
    within(call, lambda x: torch.relu(x), torch._C.DisableTorchFunctionSubclass(), args=(x,))
