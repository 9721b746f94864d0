"""tile.workspace in the interpreter and in the manifest: a kernel of level nvvm that keeps numbers in it."""

import re

import numpy as np
import pytest

from lowtide.compiler.manifest.manifest import manifest_of
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret

_PROGRAM = """
#problem = #tile.problem<tn, a = f32, b = f32, acc = f32, results = [full f32], operands = []>
!matrix = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.level = "nvvm", tile.target = "sm_80"} {
  func.func @gemm(%a: !matrix, %b: !matrix, %d: !matrix) attributes {tile.problem = #problem} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = memref.dim %d, %c1 : !matrix
    %w = tile.workspace %n : memref<?xf32>
    %counters = tile.workspace %n zeroed : memref<?xi32>
    %pd = memref.extract_aligned_pointer_as_index %d : !matrix -> index
    %pw = memref.extract_aligned_pointer_as_index %w : memref<?xf32> -> index
    %pc = memref.extract_aligned_pointer_as_index %counters : memref<?xi32> -> index
    %length = memref.dim %w, %c0 : memref<?xf32>
    %l = arith.index_cast %length : index to i32
    tile.launch @kernel grid(%c1) threads(32) shared_memory(0) args(%pd, %pw, %pc, %l) : index, index, index, i32
    return
  }
  gpu.module @kernels {
    gpu.func @kernel(%d: !llvm.ptr<1>, %w: !llvm.ptr<1>, %c: !llvm.ptr<1>, %l: i32) kernel
        attributes {problem = #problem} {
      %lane = nvvm.read.ptx.sreg.tid.x : i32
      %zero = arith.constant 0 : i32
      %is_mine = arith.cmpi slt, %lane, %l : i32
      scf.if %is_mine {
        %at = llvm.getelementptr %w[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
        %two = arith.constant 2.0 : f32
        llvm.store %two, %at : f32, !llvm.ptr<1>
        %x = llvm.load %at : !llvm.ptr<1> -> f32
        %count = llvm.getelementptr %c[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %n = llvm.load %count : !llvm.ptr<1> -> i32
        %1 = arith.sitofp %n : i32 to f32
        %y = arith.addf %x, %1 : f32
        %out = llvm.getelementptr %d[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
        llvm.store %y, %out : f32, !llvm.ptr<1>
        llvm.store %zero, %count : i32, !llvm.ptr<1>
      }
      gpu.return
    }
  }
}
"""


def run(text: str) -> list[float]:
    d = interpret(text, {"a": np.ones((1, 4), np.float32), "b": np.ones((3, 4), np.float32)})
    return [float(x) for x in d[0]]


def edited(line: str, by: str) -> str:
    assert _PROGRAM.count(line) == 1
    return _PROGRAM.replace(line, by)


def test_a_workspace_has_the_elements_asked_for_and_a_zeroed_one_is_zero() -> None:
    assert run(_PROGRAM) == [2.0] * 3


@pytest.mark.parametrize(
    ("line", "by", "message"),
    [
        ("llvm.store %two, %at : f32, !llvm.ptr<1>", "", "uninitialised: f32 read where nothing was written"),
        ("memref.dim %w, %c0 : memref<?xf32>", "arith.addi %n, %c1 : index", r"\[outside-matrices\]"),
        (
            "llvm.store %zero, %count",
            "llvm.store %lane, %count",
            r"tile.workspace .*element 1 is not zero after the launches.*\[workspace-not-reset\]",
        ),
    ],
)
def test_misuse_of_a_workspace_is_found(line: str, by: str, message: str) -> None:
    with pytest.raises(InterpreterError, match=message):
        run(edited(line, by))


def test_the_manifest_has_sizes_types_and_addresses_of_workspaces() -> None:
    host = {entry["results"][0]: entry for entry in manifest_of(_PROGRAM, _PROGRAM, "")["host"] if entry["results"]}
    launch = manifest_of(_PROGRAM, _PROGRAM, "")["host"][-1]["attributes"]
    _, partials, counters, length = (argument["value"] for argument in launch["arguments"])
    assert host[partials]["attributes"] == {"dtype": "f32", "zeroed": False}
    assert host[counters]["attributes"] == {"dtype": "s32", "zeroed": True}
    assert host[partials]["operands"] == host[counters]["operands"] == host[length]["operands"]
    assert re.fullmatch(r"memref.dim", host[host[partials]["operands"][0]]["op"])
