"""Readers of global memory, and writes that are not ordered after them."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError


@pytest.mark.parametrize("reads", [("lt.u32", (3,)), ("eq.u32", (0, 1, 2))])
@pytest.mark.parametrize(("element", "is_race"), [(1, True), (40, False)])
def test_all_readers_of_wide_elements_are_known_when_a_narrow_one_is_written(reads, element, is_race):
    # Three threads read the same 16 bytes, in one instruction or apart; then the last of them writes four of them, or
    # four further on.
    name, lanes = reads
    load = "setp.{} %p1, %r1, {}; @%p1 ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%rd1];"
    body = "".join(load.format(name, lane) for lane in lanes)
    body += f"setp.eq.u32 %p2, %r1, 2; @%p2 st.global.u32 [%rd1+{4 * element}], %r1;"
    text, buffers = kernel(body, ["x"]), {"x": ("i32", np.zeros(64))}
    if not is_race:
        run(text, buffers)
        return
    with pytest.raises(InterpreterError, match=r"write after read.* warp 0 .*read"):
        run(text, buffers)
