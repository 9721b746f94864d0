"""Extents of a problem, from the shapes of its operands."""

import pytest

from lowtide.errors import LaunchError
from lowtide.runtime.checks import MatrixView, check_dims

DIMS = {"a": ("batch", "m", "k"), "scale_a": ("batch", "m/128", "k/128")}


def view(*shape: int) -> MatrixView:
    return MatrixView(0, shape, (1,) * (len(shape) - 1), 0)


def test_scales_that_a_batch_shares_are_counted_in_blocks_of_their_own_dimensions() -> None:
    found = check_dims(DIMS, {"a": view(3, 4097, 512), "scale_a": view(33, 4)})
    assert found == {"batch": 3, "m": 4097, "k": 512}
    with pytest.raises(LaunchError, match=r"has 32 blocks of 128 along M.*\[blocks-differ\]"):
        check_dims(DIMS, {"a": view(3, 4097, 512), "scale_a": view(32, 4)})
