"""A dump that the tests of several commands read."""

from pathlib import Path

import pytest
from cli_calls import SMALL, accepted


@pytest.fixture(scope="session")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every step of a small kernel with a bias, in f16, nt."""
    folder = tmp_path_factory.mktemp("dump")
    problem = (*SMALL, "--dtype", "f16", "--layout", "nt", "--epilogue", "bias-relu")
    accepted("compile", *problem, "--schedule", "grid.tile = [64, 64], k = 32, stages = 3", "--dump-ir", str(folder))
    return folder
