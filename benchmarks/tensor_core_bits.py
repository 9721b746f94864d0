"""Compares sums of the tensor cores, bit for bit, with those of the interpreter's domain `hopper`.

    python benchmarks/tensor_core_bits.py [--markdown FILE] [--extent 64] [--seed 0]

Each kernel computes D = A · B of 64×64×K with f32 sums and f32 D, or f16 sums and f16 D, on the GPU and in the
interpreter at level ptx. The table shows the number of elements of D with the same bits; all NaN are equal. Requires an
H200 and torch; takes half a minute. Exit status: 0 if all agree, 1 if one differs.
"""

import argparse
import datetime
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import lowtide as lt
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.kernel import CompiledKernel
from lowtide.elements import element_type
from lowtide.markdown import markdown
from lowtide.measurement.bench.gpu_timing import torch_with_gpu


@dataclass(frozen=True)
class Case:
    """One atom, by its name without types, for a target; and the K of its kernels."""

    atom: str
    target: str
    operands: str
    sums: str
    depths: tuple[int, ...] = (16, 64, 256)


CASES = tuple(
    Case(atom, target, operands, sums)
    for operands, sums in (("f16", "f32"), ("bf16", "f32"), ("f16", "f16"))
    for atom, target in (("mma.m16n8k8", "sm_80"), ("mma.m16n8k16", "sm_80"), ("wgmma.m64n64k16", "sm_90a"))
)


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal(shape)


def wide(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Exponents over 14 binades, so that truncated bits reach into the sum."""
    return np.ldexp(rng.standard_normal(shape), rng.integers(-7, 8, shape))


def cancelling(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Neighbours along K of opposite sign and nearly equal."""
    values = rng.standard_normal(shape)
    nearly = 1 + np.ldexp(rng.integers(-3, 4, values[:, ::2].shape).astype(float), -8)
    values[:, 1::2] = values[:, ::2] * nearly * np.where(np.arange(shape[0]) % 2, 1, -1)[:, None]
    return values


def tiny(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Near the smallest normal f16, some below it."""
    return np.ldexp(rng.standard_normal(shape), rng.integers(-20, -10, shape))


def special(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """With zeros of both signs, a few infinities and NaN."""
    values = rng.standard_normal(shape)
    values[rng.random(shape) < 0.3] = 0.0
    values[rng.random(shape) < 0.3] *= -0.0
    values[rng.integers(shape[0]), rng.integers(shape[1])] = np.inf
    values[rng.integers(shape[0]), rng.integers(shape[1])] = -np.inf
    values[rng.integers(shape[0]), rng.integers(shape[1])] = np.nan
    return values


def huge(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Up to 2^15: products of f16 overflow f16 sums."""
    return np.ldexp(rng.standard_normal(shape), rng.integers(4, 13, shape))


INPUTS: tuple[Callable[[np.random.Generator, tuple[int, int]], np.ndarray], ...] = (
    *(normal, wide, cancelling, tiny, huge, special),
)


def on_gpu(kernel: CompiledKernel, a: np.ndarray, b: np.ndarray, d: str) -> np.ndarray:
    """D on the GPU, for arrays whose types torch may not take from numpy."""
    torch = torch_with_gpu()

    def tensor(values: np.ndarray) -> object:
        dtype = getattr(torch, values.dtype.name)
        return torch.from_numpy(values.view(f"i{values.itemsize}")).cuda().view(dtype)

    result = torch.empty((len(a), len(b)), device="cuda", dtype=getattr(torch, element_type(d).library))
    kernel(tensor(a), tensor(b), out=result)
    torch.cuda.synchronize()
    return np.asarray(result.cpu().numpy())


def agreeing(first: np.ndarray, second: np.ndarray) -> int:
    """The number of elements with the same bits, or both NaN."""
    bits = f"u{first.itemsize}"
    return int(((first.view(bits) == second.view(bits)) | (np.isnan(first) & np.isnan(second))).sum())


def rows(extent: int, seed: int) -> Iterator[tuple[tuple[str, ...], bool]]:
    """A row of the table for each case, and whether all agree."""
    for case in CASES:
        found = dict.fromkeys((inputs.__name__ for inputs in INPUTS), 0)
        total = len(case.depths) * extent * extent
        for k in case.depths:
            spec = lt.GemmSpec(
                m=extent, n=extent, k=k, a=case.operands, b=case.operands, d=case.sums, acc=case.sums, layout="tn"
            )
            fields = f"multiply.atom = {case.atom}, grid.k_division = none"
            kernel = lt.compile_gemm(spec, target=case.target, schedule=fields)
            for inputs in INPUTS:
                rng = np.random.default_rng(seed)
                a, b = (inputs(rng, (extent, k)).astype(numpy_dtype(case.operands)) for _ in range(2))
                with np.errstate(all="ignore"):
                    ours = kernel.interpret(a, b, level="ptx", domain="hopper")
                found[inputs.__name__] += agreeing(on_gpu(kernel, a, b, case.sums), ours)
        counts = (f"{count} of {total}" for count in found.values())
        yield (f"`{case.atom}`", case.operands, case.sums, *counts), min(found.values()) == total


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    parser.add_argument("--extent", type=int, default=64, help="M and N")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    device = torch_with_gpu().cuda.get_device_name()
    table, agree = zip(*rows(options.extent, options.seed), strict=True)
    headings = ("atom", "operands", "sums", *(inputs.__name__ for inputs in INPUTS))
    text = f"{datetime.date.today()}. {device}, elements of D with the same bits, over K of 16, 64 and 256:\n\n"
    text += markdown(headings, table)
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n", encoding="utf-8")
    return 0 if all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
