"""The sums of tensor cores: one mma.sync or wgmma on chosen bits, for each instruction and family of operands.

python benchmarks/probe_tensor_cores.py run DIR                        # on an H200, with only numpy and cuda-python
python benchmarks/probe_tensor_cores.py compare DIR [--markdown FILE]  # anywhere: compares with the interpreter's rules

`run` writes the results of each instruction for each family of operands, as bits. Operands follow from seeds, so
`compare` can make them again. `tensor_core_bits.py` compares whole kernels.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from probe_operands import FAMILIES, FORMATS, INSTRUCTIONS, Bits, Instruction, Operands, operands_of, values_of

# One launch -----------------------------------------------------------------------------------------------------------


def _words(elements: Bits) -> Bits:
    """Neighbouring elements as words of 32 bits."""
    return np.ascontiguousarray(elements).view(np.uint32)


def _accumulator_places(instruction: Instruction) -> tuple[Bits, Bits]:
    """Row and column of each thread's accumulators, of a warp or a warpgroup (PTX ISA, "Matrix Fragments")."""
    threads, i = np.arange(32 if instruction.unit == "mma" else 128)[:, None], np.arange(4)
    return 16 * (threads // 32) + threads % 32 // 4 + 8 * (i // 2), 2 * (threads % 4) + i % 2


def images(instruction: Instruction, operands: Operands) -> tuple[Bits, Bits, Bits]:
    """A, B and C as the kernel reads them, as words by thread; for wgmma, A and B are images of shared memory."""
    a, b, c = operands
    row, column = _accumulator_places(instruction)
    accumulators = _words(c[:, row, column])
    if instruction.unit == "wgmma":  # core matrices of 8 rows of 16 bytes, contiguous along K
        shared = []
        for matrix in (a, b):
            run = 16 // matrix.itemsize
            cores = matrix.reshape(len(matrix), -1, 8, matrix.shape[2] // run, run).swapaxes(2, 3)
            shared.append(_words(cores.reshape(len(matrix), -1)))
        return shared[0], shared[1], accumulators
    lane, each = np.arange(32)[:, None, None], 4 // a.itemsize
    k = instruction.shape[2]
    halves = k // (4 * each)
    register, element = np.arange(2 * halves)[:, None], np.arange(each)
    depth = lane % 4 * each + element + register // 2 * (k // 2)
    left = a[:, lane // 4 + 8 * (register % 2) + 0 * element, depth]
    register = np.arange(halves)[:, None]
    right = b[:, lane // 4 + 0 * register + 0 * element, lane % 4 * each + element + register * (k // 2)]
    return _words(left), _words(right), accumulators


def results_of(instruction: Instruction, words: Bits) -> Bits:
    """D (instructions, M, N) as bits, from the words that the kernel wrote."""
    row, column = _accumulator_places(instruction)
    values = words.view(FORMATS[instruction.accumulator].word).reshape(instruction.count, *row.shape)
    m, n, _ = instruction.shape
    d = np.zeros((instruction.count, m, n), values.dtype)
    d[:, row, column] = values
    return d


def _registers(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def ptx_of(instruction: Instruction) -> str:
    """A kernel with one instruction in each warp or warpgroup."""
    m, n, k = instruction.shape
    is_async = instruction.unit == "wgmma"
    threads = 128 if is_async else 32
    a, b, d = instruction.a, instruction.b, instruction.accumulator
    size, held = FORMATS[instruction.a].bits // 8, 4 * FORMATS[instruction.accumulator].bits // 32
    counts = (m * k * size // 4, n * k * size // 4)
    lines = [f"ld.param.u64 %p{at}, [p{at}];" for at in range(4)]
    lines += ["mov.u32 %t, %tid.x;", "mov.u32 %g, %ctaid.x;"]

    def of_thread(at: int, words: int) -> list[str]:
        return [
            f"mad.lo.u32 %i, %g, {threads}, %t;",
            f"mul.wide.u32 %o, %i, {4 * words};",
            f"add.u64 %p{at}, %p{at}, %o;",
        ]

    lines += of_thread(2, held) + [f"ld.global.b32 %c{i}, [%p2+{4 * i}];" for i in range(held)]
    if is_async:
        for at, words, start in ((0, counts[0], 0), (1, counts[1], 4 * counts[0])):
            lines += [f"mul.wide.u32 %o, %g, {4 * words};", f"add.u64 %p{at}, %p{at}, %o;"]
            lines += ["mul.wide.u32 %o, %t, 4;", f"add.u64 %p{at}, %p{at}, %o;", "mov.u32 %s, memory;"]
            lines += ["mad.lo.u32 %s, %t, 4, %s;"]
            for first in range(0, words, threads):
                guard = ""
                if words - first < threads:
                    lines.append(f"setp.lt.u32 %q, %t, {words - first};")
                    guard = "@%q "
                lines += [f"{guard}ld.global.b32 %x, [%p{at}+{4 * first}];"]
                lines += [f"{guard}st.shared.b32 [%s+{start + 4 * first}], %x;"]
        lines += ["fence.proxy.async;", "bar.sync 0;", "mov.u32 %s, memory;", "shr.u32 %s, %s, 4;"]
        high = (128 >> 4) << 16 | (256 >> 4) << 32
        lines += ["cvt.u64.u32 %da, %s;", f"or.b64 %da, %da, {high};", f"add.u64 %db, %da, {4 * counts[0] >> 4};"]
        lines += ["setp.eq.u32 %q, 0, 0;", "wgmma.fence.sync.aligned;"]
        rest = ", 1, 1, 0, 0" if size == 2 else ", 1, 1"
        lines.append(
            f"wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{d}.{a}.{b} {_registers('c', held)}, %da, %db, %q{rest};"
        )
        lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    else:
        per = (counts[0] // 32, counts[1] // 32)
        for at, name in ((0, "a"), (1, "b")):
            lines += of_thread(at, per[at])
            lines += [f"ld.global.b32 %{name}{i}, [%p{at}+{4 * i}];" for i in range(per[at])]
        lists = ", ".join(_registers(name, each) for name, each in (("c", held), ("a", per[0]), ("b", per[1])))
        lines.append(f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{d}.{a}.{b}.{d} {lists}, {_registers('c', held)};")
    lines += of_thread(3, held) + [f"st.global.b32 [%p3+{4 * i}], %c{i};" for i in range(held)] + ["ret;"]
    parameters = ", ".join(f".param .u64 p{at}" for at in range(4))
    shared = f".shared .align 128 .b8 memory[{4 * sum(counts)}];" if is_async else ""
    body = "\n  ".join(lines)
    return f""".version 8.4
.target sm_90a
.address_size 64
.visible .entry probe({parameters})
{{
  .reg .b64 %p<4>, %o, %da, %db;
  .reg .b32 %t, %g, %i, %s, %x, %a<4>, %b<4>, %c<4>;
  .reg .pred %q;
  {shared}
  {body}
}}
"""


# On a GPU -------------------------------------------------------------------------------------------------------------


def run(folder: Path, instructions: Sequence[Instruction] = INSTRUCTIONS) -> None:
    """Run instructions on all families, and write the results to `folder`."""
    cuda = importlib.import_module("cuda.bindings.driver")

    def check(result: Any) -> Any:
        if result[0] != cuda.CUresult.CUDA_SUCCESS:
            raise SystemExit(f"CUDA: {result[0]}")
        return result[1] if len(result) == 2 else result[1:]

    check(cuda.cuInit(0))
    device = check(cuda.cuDeviceGet(0))
    context = check(cuda.cuDevicePrimaryCtxRetain(device))
    check(cuda.cuCtxSetCurrent(context))
    folder.mkdir(parents=True, exist_ok=True)
    for instruction in instructions:
        module = check(cuda.cuModuleLoadData(ptx_of(instruction).encode() + b"\0"))
        function = check(cuda.cuModuleGetFunction(module, b"probe"))
        found = {}
        for family in FAMILIES:
            words = [np.ascontiguousarray(each) for each in images(instruction, operands_of(instruction, family))]
            out = np.zeros(words[2].size, np.uint32)
            pointers = [check(cuda.cuMemAlloc(each.nbytes)) for each in (*words, out)]
            for pointer, each in zip(pointers[:3], words, strict=True):
                check(cuda.cuMemcpyHtoD(pointer, each.ctypes.data, each.nbytes))
            arguments = np.array([int(pointer) for pointer in pointers], np.uint64)
            slots = np.array([arguments[at:].ctypes.data for at in range(4)], np.uint64)
            threads = 32 if instruction.unit == "mma" else 128
            check(cuda.cuLaunchKernel(function, instruction.count, 1, 1, threads, 1, 1, 0, 0, slots.ctypes.data, 0))
            check(cuda.cuCtxSynchronize())
            check(cuda.cuMemcpyDtoH(out.ctypes.data, pointers[3], out.nbytes))
            for pointer in pointers:
                check(cuda.cuMemFree(pointer))
            found[family] = results_of(instruction, out)
        np.savez_compressed(folder / instruction.file, **found)
        print(instruction.name, {family: int((each != 0).sum()) for family, each in found.items()}, flush=True)


# Anywhere -------------------------------------------------------------------------------------------------------------


def agreeing(instruction: Instruction, family: str, found: Bits) -> int:
    """The number of sums with the same bits as by the interpreter's rules; all NaN are equal."""
    rules = importlib.import_module("lowtide.interpreter.numbers.tensor_cores")
    a, b, c = operands_of(instruction, family)
    names = instruction.a, instruction.b, instruction.accumulator
    values = [values_of(bits, name) for bits, name in zip((a, b, c), names, strict=True)]
    operands = (_MLIR.get(instruction.a, instruction.a), _MLIR.get(instruction.b, instruction.b))
    unit = "wgmma" if instruction.unit == "wgmma" else "mma.sync"
    with np.errstate(all="ignore"):
        given = rules.multiply_add(values[0], values[1], values[2], operands, instruction.accumulator, unit)
    expected = values_of(found, instruction.accumulator)
    same = (given == expected) & (np.signbit(given) == np.signbit(expected))
    return int((same | (np.isnan(given) & np.isnan(expected))).sum())


_MLIR = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2"}


def compare(folder: Path) -> tuple[str, bool]:
    """The table of agreement, and whether all agree."""
    lines = ["| instruction | A and B | sums | sums with the same bits |", "|---|---|---|---|"]
    agree = True
    for instruction in INSTRUCTIONS:
        found = np.load(folder / instruction.file)
        same = sum(agreeing(instruction, family, found[family]) for family in FAMILIES)
        total = sum(found[family].size for family in FAMILIES)
        unit = "wgmma" if instruction.unit == "wgmma" else "mma.sync"
        shape = "m{}n{}k{}".format(*instruction.shape)
        types = instruction.a if instruction.a == instruction.b else f"{instruction.a} and {instruction.b}"
        lines.append(f"| {unit}.{shape} | {types} | {instruction.accumulator} | {same} of {total} |")
        agree &= same == total
    return "\n".join(lines), agree


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("run", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    if arguments.what == "run":
        run(arguments.folder)
        return 0
    table, agree = compare(arguments.folder)
    print(table)
    if arguments.markdown:
        arguments.markdown.write_text(table + "\n", encoding="utf-8")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
