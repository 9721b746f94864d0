"""Runs the litmus tests of the memory model and of the reliances on a GPU, and says which outcomes were seen.

    python benchmarks/litmus/run_litmus.py [--seconds 0.15] [--only TEXT]

Needs a GPU of capability 9.0, cuda-python and numpy; takes less than a minute. A plain load of a kernel is out of order
if it does not see the store that it sees where the kernel is right. A kernel that the interpreter calls ok must have
none; in a racy one, hardware may hide the race. What a reliance names is forgiven if its kernel has no wrong word, and
its control has some. Exit status: 1 if a right kernel, or one with a reliance, had a wrong outcome; otherwise 0.
"""

import argparse
import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from cuda.bindings import driver
from memory_model import ALL, OK, SPACING, Litmus
from reliances import RELIED, ROW_BYTES, ROWS

COPIES = 256  # of a test that run at the same time
ROUNDS = 60


def done(result: tuple[Any, ...]) -> Any:
    """What a function of the driver gives."""
    if int(result[0]):
        raise SystemExit(f"the driver: {result[0]!s}")
    return result[1] if len(result) == 2 else result[1:]


def start() -> str:
    """Make a context on the first GPU; its name."""
    done((*driver.cuInit(0), None))
    device = done(driver.cuDeviceGet(0))
    name = done(driver.cuDeviceGetName(100, device)).decode().strip("\0 ")
    kind = driver.CUdevice_attribute
    major = done(driver.cuDeviceGetAttribute(kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    if major != 9:
        raise SystemExit(f"{name}: the kernels are for sm_90a")
    done((*driver.cuCtxSetCurrent(done(driver.cuDevicePrimaryCtxRetain(device))), None))
    return name


def memory(size: int) -> int:
    """Bytes on the GPU, all zero."""
    pointer = done(driver.cuMemAlloc(size))
    done((*driver.cuMemsetD8(pointer, 0, size), None))
    return int(pointer)


def clear(pointer: int, size: int) -> None:
    done((*driver.cuMemsetD8(pointer, 0, size), None))


def numbers(pointer: int, count: int) -> list[int]:
    """Words of the GPU's memory, once all that was launched has ended."""
    done((*driver.cuCtxSynchronize(), None))
    held = np.zeros(count, np.uint32)
    done((*driver.cuMemcpyDtoH(held, pointer, held.nbytes), None))
    return [int(each) for each in held]


def kernel(text: str) -> Any:
    module = done(driver.cuModuleLoadData(text.encode() + b"\0"))
    return done(driver.cuModuleGetFunction(module, b"test"))


def launch(function: Any, grid: tuple[int, int], threads: int, pointers: Sequence[int], number: int) -> None:
    """Launch a kernel with pointers and a number as parameters."""
    values = *pointers, number
    types = *[ctypes.c_void_p] * len(pointers), ctypes.c_uint
    done((*driver.cuLaunchKernel(function, *grid, 1, threads, 1, 1, 0, 0, (values, types), 0), None))


def repeated(seconds: float, once: Callable[[int], None]) -> int:
    """Call a function with 0, 1, … for some time, at least three times; how often."""
    started, count = time.perf_counter(), 0
    while count < 3 or time.perf_counter() - started < seconds:
        once(count)
        count += 1
        if count % 8 == 0:
            done((*driver.cuCtxSynchronize(), None))
    return count


def outcomes(litmus: Litmus, words: Sequence[int], seen: int, seconds: float) -> tuple[int, int, int]:
    """How often a test ran, loads out of order, and waits that were given up."""
    function = kernel(litmus.ptx(measured=True))
    clear(seen, 8)

    def once(salt: int) -> None:
        for each in words:
            clear(each, COPIES * SPACING)
        launch(function, (litmus.grid, COPIES), 64, [*words, seen], salt * 2654435761 % 2**32)

    count = repeated(seconds, once)
    wrong, waits = numbers(seen, 2)
    return count * COPIES, wrong, waits


def of_memory_model(only: str, seconds: float) -> bool:
    """Print the outcomes of the memory model's tests; whether all are as the interpreter says."""
    words, seen = [memory(COPIES * SPACING) for _ in range(4)], memory(8)
    print("| test | interpreter | runs | loads out of order | waits given up |\n| --- | --- | --- | --- | --- |")
    good, shown = True, [0, 0]
    for litmus in (each for each in ALL if only in each.name):
        runs, wrong, waits = outcomes(litmus, words, seen, seconds)
        right = litmus.verdict == OK
        good = good and not (right and (wrong or waits))
        shown = [shown[0] + (not right), shown[1] + (not right and bool(wrong or waits))]
        print(f"| {litmus.name} | {litmus.verdict} | {runs} | {wrong} | {waits} |", flush=True)
    print(f"\nright tests: {'none' if good else 'some'} out of order; racy tests: {shown[1]} of {shown[0]} were seen")
    return good


def of_reliances(only: str, seconds: float) -> bool:
    """Print the outcomes of the tests of the reliances; whether hardware forgave all."""
    ctas = 264
    rows, out, seen = memory(ROWS * ROW_BYTES), memory(ctas * ROW_BYTES), memory(8)
    held = np.repeat(np.arange(1, ROWS + 1, dtype=np.uint32), ROW_BYTES // 4)
    done((*driver.cuMemcpyHtoD(rows, held, held.nbytes), None))
    print("\n| reliance | kernel | rounds | wrong words | waits given up |\n| --- | --- | --- | --- | --- |")
    good = True
    for relied in (each for each in RELIED if only in each.name):
        for name, text in (("without the fence", relied.kernel), ("control", relied.control)):
            if text is None:
                continue
            clear(seen, 8)
            function = kernel(text)

            def once(number: int, function: Any = function, threads: int = relied.threads) -> None:
                launch(function, (ctas, 1), threads, [rows, out, seen], ROUNDS)

            count = repeated(seconds, once)
            wrong, waits = numbers(seen, 2)
            good = good and not (text is relied.kernel and (wrong or waits))
            print(f"| {relied.name}{relied.of} | {name} | {count * ctas * ROUNDS} | {wrong} | {waits} |", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.15, help="of each test")
    parser.add_argument("--only", default="", help="only tests whose name has this")
    given = parser.parse_args()
    print(f"{start()}\n")
    good = of_memory_model(given.only, given.seconds)
    return 0 if of_reliances(given.only, 5 * given.seconds) and good else 1


if __name__ == "__main__":
    sys.exit(main())
