"""`load`: a packaged model as a callable. It needs torch and this package's files for packages, nothing of the compiler.

Flows in: a file that `package` wrote. Flows out: `PackagedModel`.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import torch

from meta._torch import any_autocast, tensor_of_handle
from meta.package_file import DamagedPackage, read_manifest
from meta.structure import builder, facts, flatten


class PackagedModel:
    """A model compiled ahead. Call it as the model was called when it was packaged: same structure of arguments, and what is no
    tensor the same values. Results record no gradients, and share no memory with arguments."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest
        """What the package says of itself."""
        library = ctypes.PyDLL(os.fspath(path))
        bind = library.python_function
        bind.restype, bind.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.py_object]
        self._run = bind(os.fsencode(path), tensor_of_handle)
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


def load(path: str | os.PathLike[str], *, verify: bool = True) -> PackagedModel:
    """The model in a package. Its code is run: load only what comes from where you trust.

    Args:
        path: a file that `package` wrote.
        verify: read the whole file and compare it with its hash, before any of it is run: about half a second a gigabyte.

    Raises:
        DamagedPackage: the file is no package, or is damaged.
        OSError: it can't be read, or mapped to be run.
        RuntimeError: this processor or this torch lacks what the model needs; the message says what.
    """
    place = Path(path).resolve()
    manifest = read_manifest(place, verify)
    if manifest.get("format") != 1:
        raise DamagedPackage(f"{place} is a package of another version's")
    return PackagedModel(place, manifest)
