"""Interpreters and torch versions that are not supported are refused in one sentence."""

import subprocess
import sys
import warnings

import pytest

from symshapes.versions import check_versions


def test_unsupported_python_is_one_sentence() -> None:
    with pytest.raises(ImportError, match=r"^meta supports CPython 3\.11 to 3\.14; this is 3\.10\.$"):
        check_versions("meta", python=(3, 10, 4))
    with pytest.raises(ImportError, match=r"this is 3\.15"):
        check_versions("meta", python=(3, 15, 0))


def test_old_torch_is_one_sentence() -> None:
    with pytest.raises(ImportError, match=r"^capture needs torch 2\.11 or newer; installed is 2\.9\.1\+cpu\.$"):
        check_versions("capture", torch_version="2.9.1+cpu")


def test_new_torch_warns_once() -> None:
    with pytest.warns(UserWarning, match="newer than 2.13"):
        check_versions("meta", torch_version="2.97.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_versions("capture", torch_version="2.97.0")


def test_supported_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for version in ("2.11.0", "2.12.1", "2.13.0+cpu"):
            check_versions("meta", torch_version=version)


def test_importing_on_an_old_torch_fails_with_the_sentence() -> None:
    program = "import torch; torch.__version__ = '2.8.0'; import symshapes"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith("ImportError: symshapes, which every part imports, needs torch 2.11")
