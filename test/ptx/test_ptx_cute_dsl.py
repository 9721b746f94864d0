"""PTX of CuTe DSL: its TMA atom is a tensor map, its tensors are structs of a pointer and of extents."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

import lowtide as lt

TEXT = (Path(__file__).parent / "cute_dsl" / "tile_copy.ptx").read_text()
MATRIX = np.arange(70 * 128).reshape(70, 128).astype(np.float16)


def check(text: str, box: tuple[int, int] = (64, 64)) -> Any:
    (kernel,) = lt.ptx.load(text).values()
    rows = lt.ptx.Bytes(struct.pack("<i", 70))
    target = lt.ptx.Bytes(bytes(8), {0: lt.ptx.Unwritten((64, 64), np.float16)})
    arguments = [lt.ptx.TensorMap(MATRIX, box), rows, target]
    return kernel.check(grid=1, block=128, shared=64 * 64 * 2 + 16, args=arguments, expect=[None, MATRIX[:64, :64]])


def test_a_kernel_of_cute_dsl_runs() -> None:
    report = check(TEXT)
    assert (report.kind, report.message) == ("ok", "no rule is broken; 1 array is as expected")


def test_its_faults_are_found_at_lines_of_its_source() -> None:
    """The box is not the one that the kernel expects; nothing waits for the copy."""
    assert check(TEXT, (32, 64)).kind in ("deadlock", "wrong-bytes")
    wait = next(line for line in TEXT.splitlines() if "try_wait" in line)
    report = check(TEXT.replace(wait, "setp.eq.u32 P1, 0, 0;"))
    assert report.kind == "race" and {each.source[0].file for each in report.places} == {"tile_copy.py"}
