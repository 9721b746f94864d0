"""`lowtide.torch` where there is no torch. What it does with torch is tested in test/gpu/test_torch_gpu.py."""

import importlib
import sys

import pytest

import lowtide as lt


def test_without_torch_the_import_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "lowtide.torch" or name.startswith("lowtide.torch.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        ImportError, match=r"needs PyTorch, which is not installed; pip install torch.*\[needs-torch\]"
    ) as raised:
        importlib.import_module("lowtide.torch")
    assert isinstance(raised.value, lt.DependencyError) and isinstance(raised.value, lt.Error)
