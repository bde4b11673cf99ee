"""`load`: a packaged model as a callable. It needs torch and this package's files for packages, nothing of the compiler.

Flows in: a file that `package` wrote. Flows out: `PackagedModel`.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from meta._torch import any_autocast, tensor_of_handle
from meta.package_file import PackageFile, read_package
from meta.structure import builder, facts, flatten


class PackagedModel:
    """A model compiled ahead. Call it as the model was called when it was packaged: same structure of arguments, and what is no
    tensor the same values. Results record no gradients, and share no memory with arguments."""

    def __init__(self, path: Path, run: Callable[..., tuple[Any, ...]], manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest
        """What the package says of itself."""
        self._run = run
        self._args, self._count, self._used = manifest["arguments"], manifest["tensors"], manifest["inputs"]
        self._unused = manifest["unused"]
        self._build = builder(manifest["result"])
        self._inputs_returned = manifest["returned"]
        # Tensors by position, each of them used, in order: nothing to take apart.
        positional = {"tuple": [{"tensor": at} for at in range(self._count)]}
        self._plain = (
            self._args == {"tuple": [positional, {"dict": []}]} and self._used == list(range(self._count))
        )  # fmt: skip

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result.

        Raises:
            TypeError, ValueError: an argument is not what the model was packaged for; the message says which.
        """
        given = args
        if not self._plain or kwargs or len(args) != self._count:
            tensors: list[Any] = [None] * self._count
            if self._args["tuple"][1]["dict"] or not kwargs:
                flatten((args, kwargs), self._args, tensors, "(args, kwargs)")
            else:
                raise TypeError(f"the model was packaged without keyword arguments, and got {', '.join(kwargs)}")
            for number, wanted in self._unused:
                if facts(tensors[number]) != wanted:
                    raise ValueError(f"argument tensor {number} is not as the model was packaged for: {wanted}")
            given = tuple(tensors[number] for number in self._used)
        try:
            lazy = any(map(_is_neg, given)) or any(map(_is_conj, given))
        except TypeError:
            wrong = next(type(each).__name__ for each in given if not isinstance(each, torch.Tensor))
            raise TypeError(f"an argument is a {wrong}, not a tensor") from None
        if lazy:
            given = tuple(tensor.resolve_conj().resolve_neg() for tensor in given)
        if any_autocast():
            with torch.autocast("cpu", enabled=False):
                results = self._run(*given)
        else:
            results = self._run(*given)
        if self._inputs_returned:
            tensors = [None] * self._count
            flatten((args, kwargs), self._args, tensors, "(args, kwargs)")
            results = (*results, *(tensors[number] for number in self._inputs_returned))
        return self._build(results)

    def __repr__(self) -> str:
        return f"<PackagedModel {self.manifest['name']} of {self.path}>"


def load(path: str | os.PathLike[str], *, verify: bool = False) -> PackagedModel:
    """The model in a package. Its code is run: load only what comes from where you trust.

    What runs is what was read and compared with its hash, whatever becomes of the file. Weights are mapped, and read when they are
    used: a package may be replaced by another while it is in use, but not be written to.

    Args:
        path: a file that `package` wrote.
        verify: compare the weights with their hashes, too, as the code and the manifest always are: it reads the whole file.

    Raises:
        DamagedPackage: the file is no package, or is damaged.
        OSError: it can't be read, or mapped to be run.
        RuntimeError: this processor or this torch lacks what the model needs; the message says what.
    """
    place = Path(path).resolve()
    file = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = read_package(file, place, verify)
        bind = _library(content).python_function
        bind.restype, bind.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.py_object]
        # The weights of the very file whose code was verified: by now there may be another at the path.
        run = bind(b"/proc/self/fd/%d" % file, tensor_of_handle)
    finally:
        os.close(file)
    return PackagedModel(place, run, content.manifest)


_is_neg, _is_conj = torch.Tensor.is_neg, torch.Tensor.is_conj
_libraries: dict[bytes, ctypes.PyDLL] = {}
"""Those that are mapped, by their hash. None is ever unmapped: functions of theirs may be anywhere."""
_serial = itertools.count()
_loading = threading.Lock()


def _library(content: PackageFile) -> ctypes.PyDLL:
    """The shared object mapped out of memory of our own, where nobody writes to it any more.

    The dynamic loader takes a library that it knows by the same name for the same: each gets a name that no other had.
    """
    with _loading:
        found = _libraries.get(content.digest)
        if found is None:
            memory = os.memfd_create("package", os.MFD_CLOEXEC)
            try:
                with open(memory, "wb", closefd=False) as file:
                    file.write(content.library)
                found = ctypes.PyDLL(f"/proc/self/fd/{'./' * next(_serial)}{memory}")
            finally:
                os.close(memory)
            _libraries[content.digest] = found
        return found
