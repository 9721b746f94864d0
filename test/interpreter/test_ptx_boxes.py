"""Tensor copies of boxes with one to five dimensions, in both directions."""

import numpy as np
import pytest

import lowtide as lt

SHAPES = {1: (32,), 2: (4, 8), 3: (2, 4, 4), 4: (2, 2, 2, 4), 5: (2, 2, 2, 1, 4)}
TEXT = """.version 8.0
.target sm_90a
.address_size 64
.shared .align 128 .b8 box[256];
.shared .align 8 .b8 bar[8];
.visible .entry k(.param .align 64 .b8 source[128], .param .align 64 .b8 target[128]) {{
.reg .pred %p<4>; .reg .b64 %rd<4>; .reg .b32 %r<4>;
mov.b64 %rd1, source; cvta.param.u64 %rd1, %rd1;
mov.b64 %rd2, target; cvta.param.u64 %rd2, %rd2;
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra OUT;
mbarrier.init.shared.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd1, {at}], [bar];
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;
{store}.{rank}d.global.shared::cta{how}.bulk_group [%rd2, {at}], [box];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
OUT: ret;
}}
"""


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize(("store", "how"), [("cp.async.bulk.tensor", ""), ("cp.reduce.async.bulk.tensor", ".add")])
def test_a_box_of_any_rank_is_loaded_and_stored_or_added(rank, store, how):
    source, target = (np.arange(start, start + 32, dtype=np.int32).reshape(SHAPES[rank]) for start in (5, 100))
    first = 8 if rank == 1 else 1  # so that the box has elements beyond the tensor
    start = (first, *(0,) * (rank - 1))
    at = "{" + ", ".join(map(str, reversed(start))) + "}"
    maps = [lt.ptx.TensorMap(each, SHAPES[rank]) for each in (source, target)]
    text = TEXT.format(rank=rank, at=at, store=store, how=how)
    found = lt.ptx.load(text)["k"].run(grid=1, block=32, args=maps)[-1]
    expected = target.copy()
    expected[first:] = source[first:] + (target[first:] if how else 0)
    np.testing.assert_array_equal(found, expected)
