"""Puts this folder on the path, so that tests in folders below can import its modules.

At the end of all tests, ptxas assembles the kernels that they have run.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import assembled
import ptx_kernels
import pytest

from lowtide.compiler.ptxas_program import find_ptxas

# What ptxas 13.0 lacks although the PTX ISA has it; and functions that are only declared, which it does not link.
_ELSEWHERE = ("membar.proxy.async", ".extern .func")


@pytest.fixture(autouse=True, scope="session")
def _kernels_are_legal_ptx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """ptxas accepts the kernels that `ptx_kernels.run` has run."""
    texts, decoded = {}, ptx_kernels.decoded

    def noted(text: str, *rest: object) -> object:
        program = decoded(text, *rest)
        if not any(each in text for each in _ELSEWHERE):
            texts.setdefault(text, os.environ.get("PYTEST_CURRENT_TEST", ""))
        return program

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ptx_kernels, "decoded", noted)
        yield
    if (ptxas := find_ptxas()) is not None and texts:
        found = assembled.refusals(texts, Path(ptxas), tmp_path_factory.mktemp("ptx"))
        assert not found, "\n".join(("ptxas refuses kernels of tests:", *found))
