"""How wgmma m64n8k16 rounds sums in f16: candidate rules, compared bit for bit with a GPU.

    python benchmarks/litmus/wgmma_f16_sums.py [DIR]

DIR is the output of `benchmarks/probe_tensor_cores.py run DIR` on a GPU; without it the instruction runs here, which
requires a Hopper GPU and cuda-python. The families of operands are those of `probe_operands.py`. All NaN are equal.
Exit status: 0 if the interpreter's rule gives all bits and no other candidate does, else 1.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

import probe_tensor_cores
from probe_operands import FAMILIES, INSTRUCTIONS, operands_of, values_of

from lowtide.interpreter.numbers.tensor_cores import WGMMA, multiply_add

Values = NDArray[Any]
Candidate = Callable[[Values, Values, Values], Values]

(INSTRUCTION,) = (each for each in INSTRUCTIONS if each.name == "wgmma m64n8k16 f16 f16 f16")
_UNIT = 48  # products of f16 are multiples of 2 to the power -48
_BITS = 40  # enough for a sticky bit that decides how f16 rounds


def rule(a: Values, b: Values, c: Values) -> Values:
    """The interpreter's rule: aligned, truncated 25 bits below the largest exponent, rounded once to nearest."""
    return multiply_add(a, b, c, ("f16", "f16"), "f16", WGMMA)


def exact(a: Values, b: Values, c: Values) -> Values:
    """The exact sum, rounded once."""
    return _rounded(_terms(a, b, c).sum(-1))


def cut_below(kept: int) -> Candidate:
    """Terms truncated `kept` bits below the largest of them; the sum is rounded once."""

    def candidate(a: Values, b: Values, c: Values) -> Values:
        terms = _terms(a, b, c)
        shifts = np.array([max(0, int(most).bit_length() - 1 - kept) for most in np.abs(terms).max(-1).flat], object)
        shifts = shifts.reshape(*terms.shape[:-1], 1)
        signs = np.where(terms < 0, -1, 1)
        return _rounded((signs * (np.abs(terms) >> shifts << shifts)).sum(-1))

    return candidate


def truncated(a: Values, b: Values, c: Values) -> Values:
    """The exact sum, rounded towards zero."""
    total = _terms(a, b, c).sum(-1)
    rounded = _rounded(total)
    beyond = np.abs(rounded) > np.abs(total.astype(np.float64)) * 2.0**-_UNIT
    return np.where(beyond, np.nextafter(rounded.astype(np.float16), np.float16(0)).astype(np.float64), rounded)


def halves(a: Values, b: Values, c: Values) -> Values:
    """The rule, applied to eight products at a time."""
    return rule(a[..., 8:], b[..., 8:], rule(a[..., :8], b[..., :8], c))


def one_by_one(a: Values, b: Values, c: Values) -> Values:
    """The rule, applied to one product at a time."""
    for k in range(a.shape[-1]):
        c = rule(a[..., k : k + 1], b[..., k : k + 1], c)
    return c


CANDIDATES: Mapping[str, Candidate] = MappingProxyType(
    {"the rule": rule, "exact, rounded once": exact}
    | {f"cut {kept} bits below the largest term": cut_below(kept) for kept in (11, 13, 24, 25, 26)}
    | {"exact, rounded towards zero": truncated, "the rule, by halves": halves, "the rule, one by one": one_by_one}
)


def _terms(a: Values, b: Values, c: Values) -> Values:
    """The products and c, as whole multiples of 2 to the power -48."""
    products = a[..., :, None, :] * b[..., None, :, :]
    terms = np.concatenate([products, c[..., None]], axis=-1)
    return np.vectorize(int, otypes=[object])(np.ldexp(terms, _UNIT))


def _rounded(total: Values) -> Values:
    """Multiples of 2 to the power -48, rounded to f16 once."""

    def sticky(n: int) -> float:
        size = abs(n)
        shift = max(0, size.bit_length() - _BITS)
        kept = float(size >> shift | (size & ((1 << shift) - 1) != 0)) * 2.0 ** (shift - _UNIT)
        return -kept if n < 0 else kept

    return np.vectorize(sticky, otypes=[np.float64])(total).astype(np.float16).astype(np.float64)


def agreeing(candidate: Candidate, family: str, found: Values) -> tuple[int, int]:
    """Among the sums of finite numbers, the number with the bits of the GPU, and their total."""
    a, b, c = (values_of(bits, "f16") for bits in operands_of(INSTRUCTION, family))
    finite = np.isfinite(a).all(-1)[:, :, None] & np.isfinite(b).all(-1)[:, None, :] & np.isfinite(c)
    a, b, c = (np.where(np.isfinite(each), each, 0.0) for each in (a, b, c))
    with np.errstate(over="ignore"):
        given = candidate(a, b, c)
    expected = values_of(found, "f16")
    same = (given == expected) & (np.signbit(given) == np.signbit(expected)) & finite
    return int(same.sum()), int(finite.sum())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    folder = parser.parse_args().folder
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="lowtide-sums-"))
        probe_tensor_cores.run(folder, [INSTRUCTION])
    found = np.load(folder / INSTRUCTION.file)
    print(f"{INSTRUCTION.name}: sums with the same bits, by families of operands")
    reproduce = []
    for name, candidate in CANDIDATES.items():
        counts = {family: agreeing(candidate, family, found[family]) for family in FAMILIES}
        if all(same == total for same, total in counts.values()):
            reproduce.append(name)
        print(f"{name:36} " + ", ".join(f"{family} {same} of {total}" for family, (same, total) in counts.items()))
    print(f"all bits: {', '.join(reproduce) or 'none'}")
    return 0 if reproduce == ["the rule"] else 1


if __name__ == "__main__":
    sys.exit(main())
