"""Bank conflicts and sectors of single accesses, counted by hand or by a second source."""

import numpy as np
import pytest
from tensor_layouts import Layout
from tensor_layouts.analysis import bank_conflicts

from lowtide.errors import ScheduleError
from lowtide.targets import conflicts, sectors_per_request

LANES = np.arange(32)


@pytest.mark.parametrize("stride", [0, 1, 2, 3, 4, 8, 16, 31, 32, 33])
def test_strided_words_agree_with_the_layout_packages_count(stride):
    expected = bank_conflicts(Layout(32, stride), element_bytes=4)["max_ways"]
    assert conflicts(LANES * stride * 4, 4).ways == expected


def test_sub_word_lanes_of_one_word_do_not_conflict():
    assert conflicts(LANES * 2, 2).ways == 1
    assert conflicts(LANES * 128, 2).ways == 32


def test_wide_accesses_are_served_in_half_and_quarter_warps():
    assert (conflicts(LANES * 8, 8).ideal, conflicts(LANES * 16, 16).ideal) == (2, 4)
    # Dense 8- and 16-byte accesses are free of conflicts although 32 lanes span 256 or 512 bytes.
    assert conflicts(LANES * 8, 8).wavefronts == 2
    assert conflicts(LANES * 16, 16).wavefronts == 4
    assert conflicts(LANES * 32, 16).ways == 2
    assert conflicts(LANES * 64, 16).ways == 4


def test_the_witness_names_lanes_that_meet_in_one_bank_at_different_words():
    worst = conflicts((LANES + 8) * 64, 16)
    assert len(worst.lanes) == worst.ways == 4
    assert worst.addresses == tuple((lane + 8) * 64 for lane in worst.lanes)
    assert len(set(worst.addresses)) == 4
    assert {address // 4 % 32 for address in worst.addresses} == {worst.bank}


def test_the_witness_lies_in_the_phase_that_conflicts():
    addresses = LANES * 16
    addresses[16:24] = 4096 + 128 * np.arange(8)
    worst = conflicts(addresses, 16)
    assert (worst.ways, worst.lanes) == (8, tuple(range(16, 24)))
    assert (worst.wavefronts, worst.ideal) == (11, 4)


def test_lanes_that_are_switched_off_do_not_count():
    addresses = LANES * 128
    addresses[2:] = -1
    assert conflicts(addresses, 4).ways == 2
    assert conflicts(np.full(32, -1), 4).wavefronts == 0


def test_one_ldmatrix_phase_is_one_matrix():
    dense = np.arange(16) * 16
    assert (conflicts(dense, 16, "ldmatrix").ways, conflicts(dense, 16, "ldmatrix").ideal) == (1, 2)
    assert conflicts(np.arange(8) * 128, 16, "ldmatrix").ways == 8


def test_misaligned_and_unknown_widths_are_refused():
    with pytest.raises(ScheduleError, match=r"lane 1 accesses 16 bytes at address 24.*\[access-aligned\]"):
        conflicts(LANES * 24, 16)
    with pytest.raises(ScheduleError, match=r"take 1, 2, 4, 8 or 16.*\[access-bytes\]"):
        conflicts(LANES, 3)
    with pytest.raises(ScheduleError, match=r"ldmatrix rows are 16 bytes.*\[access-bytes\]"):
        conflicts(LANES * 8, 8, "ldmatrix")


@pytest.mark.parametrize(
    "addresses, width, touched, ideal",
    [
        (LANES * 16, 16, 16, 16),
        (LANES * 4, 4, 4, 4),
        (LANES * 4 + 4, 4, 5, 4),  # shifted over a sector's edge
        (LANES * 64, 16, 32, 16),  # half of each sector unused
        (LANES * 0, 4, 1, 1),
        (np.full(32, -1), 4, 0, 0),
    ],
)
def test_sectors_are_counted_against_the_bytes_asked_for(addresses, width, touched, ideal):
    sectors = sectors_per_request(addresses, width)
    assert (sectors.touched, sectors.ideal) == (touched, ideal)
