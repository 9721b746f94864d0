"""Machine code is not made for tests of the interpreter. This file also puts helpers on the path of tests below."""

import pytest

from lowtide.compiler import attempts


@pytest.fixture(autouse=True)
def no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter needs PTX alone. To assemble choices takes a fifth of the time of a compilation."""
    monkeypatch.setattr(attempts, "find_ptxas", lambda: None)
