"""For all tests: kernels are compiled by the compiler under test, never taken from a cache of the machine.

What tests of a file, or of a kernel on which passes are tried, compile once, they compile in one process.
"""

import gc
import os
import tempfile
from collections.abc import Iterator

import pytest

os.environ["LOWTIDE_CACHE"] = "off"
gc.set_threshold(100_000, 50, 50)  # IR is freed by counting: with the usual thresholds, 5 % of all time goes to looking


@pytest.fixture(scope="session", autouse=True)
def temporary_files_below_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Reproducers of the faults that tests plant, in this process or in a command, lie in pytest's own folder."""
    folder = str(tmp_path_factory.mktemp("tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")  # type: ignore[attr-defined]
        item.add_marker(pytest.mark.xdist_group(getattr(case, "name", None) or item.path.stem))
