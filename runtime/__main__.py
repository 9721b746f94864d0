"""`python -m lowtide.runtime verify DIR…`: run saved kernels on this machine's GPU and check them against float64."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Sequence

from lowtide.entry import guard
from lowtide.errors import DeviceError, Error
from lowtide.runtime import Kernel, driver, load
from lowtide.runtime.verify import at_size, example_extents, verify_kernel

_HUNG = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 if all kernels are right, 1 if one is not or cannot run, 3 if a kernel did not end in time."""
    parser = argparse.ArgumentParser(prog="python -m lowtide.runtime", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    verify = commands.add_parser("verify", help="run saved kernels and compare with float64 within a derived bound")
    verify.add_argument("directories", nargs="+", metavar="DIR", help="a directory that kernel.save wrote")
    verify.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="for each kernel (default 120)")
    verify.add_argument("--seed", type=int, default=None, help="seed of the random inputs (default: drawn and printed)")
    verify.add_argument(
        "--size",
        type=_size,
        action="append",
        metavar="MxNxK",
        help="run-time extents to verify at, may be given several times (default: the saved example)",
    )
    verify.add_argument("--device", type=int, default=0, metavar="N", help="which GPU (default 0)")
    options = parser.parse_args(arguments)
    seed = int.from_bytes(os.urandom(4), "little") if options.seed is None else options.seed
    failures = 0
    try:
        driver.device(options.device)
    except DeviceError as error:
        print(f"cannot verify: {error}", file=sys.stderr)
        return 1
    for directory in options.directories:
        failures += not _verify_one(directory, options.device, seed, options.timeout, options.size or [None])
    print(f"{len(options.directories) - failures} of {len(options.directories)} kernels verified (seed {seed})")
    return 1 if failures else 0


def _size(text: str) -> tuple[int, int, int]:
    extents = tuple(int(extent) for extent in text.split("x") if extent.isdecimal())
    if len(extents) != 3 or min(extents) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not M, N and K, such as 300x520x264")
    return extents


def _verify_one(
    directory: str, device: int, seed: int, timeout: float, sizes: Sequence[tuple[int, int, int] | None]
) -> bool:
    """Whether the kernel is right at each size; after a wrong one, the other sizes do not run."""
    watchdog = threading.Timer(timeout, _give_up, [directory, timeout])
    watchdog.daemon = True
    watchdog.start()
    try:
        kernel = load(directory)
        return all(_is_right(kernel, directory, device, seed, size) for size in sizes)
    except Error as error:
        print(f"FAIL {directory}: {error}", flush=True)
        return False
    finally:
        watchdog.cancel()


def _is_right(kernel: Kernel, directory: str, device: int, seed: int, size: tuple[int, int, int] | None) -> bool:
    start = time.perf_counter()
    outcome = verify_kernel(kernel, ordinal=device, seed=seed, size=size)
    extents = example_extents(kernel.manifest if size is None else at_size(kernel.manifest, size))
    spec = kernel.manifest["spec"]
    what = f"{spec['a']} {spec['layout']} {extents['m']}x{extents['n']}x{extents['k']}"
    where = f"{outcome.device}, {outcome.code} for {kernel.manifest['target']}"
    result = f"error/bound {outcome.ratio:.3f} on {outcome.rows} rows" + (outcome.message and f": {outcome.message}")
    verdict = "ok  " if outcome.ok else "FAIL"
    print(f"{verdict} {directory}: {what}, {where}, {result}, {time.perf_counter() - start:.1f} s", flush=True)
    return outcome.ok


def _give_up(directory: str, timeout: float) -> None:
    """A hung kernel cannot be interrupted: end the process without clean-up, which would wait for it."""
    print(
        f"FAIL {directory}: did not end within {timeout:g} s; the kernel may hang (--timeout gives it longer)",
        flush=True,
    )
    os._exit(_HUNG)


if __name__ == "__main__":
    sys.exit(guard("lowtide.runtime", main, refused=1))
