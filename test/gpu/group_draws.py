"""Random products in groups, each drawn from its own number: no GPU is needed here.

A kernel is drawn by its words: how rows or K are grouped, types, layout, a road (a target and fields of the schedule)
and an epilogue. Each kernel runs with several sizes and splits: half of them are the named ones of
`lowtide.verification.checking.splits`, with invalid ends among them, and half are drawn.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import lowtide as lt
from lowtide.verification.checking.splits import ends_of, groups_of, splits_for

SEED = 36
KERNELS = 40
RUNS = 8  # of each kernel
_MOST_TRIES = 1000

Fields = Mapping[str, Any]


def bias(acc, c: lt.PerColumn):
    return lt.relu(acc + c)


def weighted(acc, weight: lt.PerRow, c: lt.PerColumn):
    return weight * (acc + c)


def residual(acc, c: lt.Full):
    return acc + c


def saved(acc, c: lt.PerColumn):
    return {"pre": acc + c, "d": lt.silu(acc + c)}


def with_sums(acc, weight: lt.PerRow):
    return {"d": acc * weight, "sums": lt.sum(acc, dim=1), "most": lt.amax(acc, dim=1)}


_ROWS: Fields = {"groups": None}
_PADDED: Fields = {"batch": None, "counts": True}
KINDS: Mapping[str, Fields] = {
    "rows": _ROWS,
    "K": {"groups": lt.Groups(axis="k")},
    "padded": _PADDED,
    "gathered": {**_ROWS, "a_rows": True},
    "placed": {**_ROWS, "d_rows": True},
    "gathered and placed": {**_ROWS, "a_rows": True, "d_rows": True},
    "a list": {**_ROWS, "lists": "b"},
    "lists of products": {**_PADDED, "lists": "abd"},
}
TYPES: Mapping[str, Fields] = {
    "bf16": {"a": "bf16", "b": "bf16", "d": "bf16"},
    "f16": {"a": "f16", "b": "f16", "d": "f32"},
    "f32": {"a": "f32", "b": "f32", "d": "f32"},
    "s8": {"a": "s8", "b": "s8", "d": "s32"},
    "e4m3": {"a": "e4m3", "b": "e4m3", "d": "bf16"},
    "e4m3, scales of rows and blocks": {"a": "e4m3", "b": "e4m3", "d": "bf16", "block_scales": lt.BlockScales()},
    "e4m3, scales of rows and columns": {
        "a": "e4m3",
        "b": "e5m2",
        "d": "f32",
        "block_scales": lt.BlockScales(b=(1, 128)),
    },
    "weights of s4": {"a": "bf16", "b": "s4", "d": "bf16", "group": 128},
}
LAYOUTS = ("tn", "tn", "tt", "nn", "nt")
ROADS: Mapping[str, tuple[str, str]] = {
    "mma.sync": ("sm_80", ""),
    "mma.sync, low tiles": ("sm_80", "grid.tile = [64, 64]"),
    "mma.sync, from registers": ("sm_80", "epilogue.path = direct"),
    "wgmma": ("sm_90a", ""),
    "wgmma, low tiles": ("sm_90a", "grid.tile = [64, 128], roles = cooperative(1)"),
    "wgmma, two warpgroups": ("sm_90a", "grid.tile = [128, 128], roles = cooperative(2)"),
    "wgmma in turn": ("sm_90a", "grid.tile = [64, 128], roles = pingpong(2)"),
    "wgmma, from registers": ("sm_90a", "grid.tile = [128, 64], roles = cooperative(2), epilogue.path = direct"),
}
# Small tiles, for the interpreter
_SMALL = {"sm_80": "grid.tile = [32, 32], k = 32, stages = 2", "sm_90a": "grid.tile = [64, 32], stages = 2"}
EPILOGUES: Mapping[str, Fields] = {
    "none": {},
    "bias": {"epilogue": bias},
    "weighted": {"epilogue": weighted},
    "residual": {"epilogue": residual},
    "swiglu": {"epilogue": lt.swiglu, "pairs": "stacked"},
    "interleaved swiglu": {"epilogue": lt.swiglu, "pairs": "interleaved"},
    "saved": {"epilogue": saved},
    "with sums": {"epilogue": with_sums},
}


@dataclass(frozen=True)
class Draw:
    """A kernel: its words, and what they say."""

    number: int
    words: tuple[str, str, str, str, str]
    spec: lt.GemmSpec
    target: str
    schedule: str

    def __str__(self) -> str:
        return "; ".join(self.words)

    def kernel(self, *, small: bool = False) -> Any:
        """Compiled for any extents and any number of groups."""
        schedule = _SMALL[self.target] if small else self.schedule
        return lt.compile_gemm(self.spec, self.target, schedule or None)

    def unit(self, kernel: Any) -> int:
        """The rows of a tile of the kernel; with groups of K, the elements of a step."""
        return int(kernel.schedule.tile_mnk[2 if self.spec.k_is_grouped else 0])

    def inputs(self, run: int, tile: int, *, small: bool = False) -> dict[str, Any]:
        """The inputs of one run, with its split. `tile`: as `unit` gives it."""
        rng = np.random.default_rng((SEED, self.number, run))
        m, n, k = (int(rng.integers(1, most + 1)) for most in ((70, 40, 80) if small else (1500, 300, 600)))
        n, k = 16 * -(-n // 16), 16 * -(-k // 16)
        if self.spec.is_mixed:
            k = 128 * -(-k // 128)
        if self.spec.k_is_grouped:
            m, n, k = 16 * -(-min(m, 300) // 16), n, int(rng.integers(1, 100 if small else 2000))
        split, groups = self.split(run), int(rng.integers(2, 6 if small else 20))
        groups = groups if split is None else groups_of(split, None, groups)
        extent, is_padded = k if self.spec.k_is_grouped else m, self.spec.counts
        more = {"batch": groups, "shared": ()} if self.spec.is_batched else {"groups": groups}
        given = lt.random_inputs(self.spec, m, n, k, rng, row_padding=16 * int(rng.integers(0, 3)), **more)
        if split is not None:
            name = "counts" if is_padded else "ends"
            given[name] = np.array(ends_of(split, extent, tile, groups, padded=is_padded), np.int64).astype(np.int32)
        return given

    def split(self, run: int) -> str | None:
        """The name of a run's split; None for a drawn one."""
        names = list(splits_for(padded=self.spec.counts))
        return names[(self.number * RUNS + run) // 2 % len(names)] if run % 2 else None


def _is_legal(kind: str, types: str, layout: str, road: str, epilogue: str) -> bool:
    """Whether the rules of the target take the words, as far as a spec does not say it."""
    target, is_of_k, is_padded = ROADS[road][0], kind == "K", kind in ("padded", "lists of products")
    if target == "sm_80" and "e4m3" in types:
        return False
    if target == "sm_90a" and types in ("f32", "weights of s4"):
        return False  # by threads; or by wgmma with swapped operands, which groups do not support
    if (layout == "nt") != is_of_k and (is_of_k or not is_padded):
        return False
    of_8_bits = types == "s8" or "e4m3" in types
    if of_8_bits and target == "sm_90a" and layout != "tn" and not (is_of_k and "scales" in types):
        return False  # wgmma takes them with K contiguous
    if "scales" in types and (epilogue == "with sums" or ("in turn" in road and is_of_k)):
        return False
    if is_of_k and ("in turn" in road or epilogue in ("with sums", "weighted")):
        return False
    if epilogue == "with sums" and is_padded:
        return False
    if types == "s8" and epilogue not in ("none", "residual"):
        return False
    if kind == "lists of products" and "in turn" in road:
        return False
    return not (types == "weights of s4" and ("registers" in road or "swiglu" in epilogue))


def _spec(kind: str, types: str, layout: str, epilogue: str) -> lt.GemmSpec | None:
    """The problem, for any extents; None if it is not supported."""
    try:
        return lt.GemmSpec(layout=layout, **{**TYPES[types], **KINDS[kind], **EPILOGUES[epilogue]})
    except lt.SpecError:
        return None


def draws() -> list[Draw]:
    """All kernels, no two alike. Kinds of groups come in turn."""
    found: list[Draw] = []
    for number in range(KERNELS):
        rng, kind = random.Random(f"{SEED} {number}"), list(KINDS)[number % len(KINDS)]
        for _ in range(_MOST_TRIES):
            words = (kind, *(rng.choice(list(each)) for each in (TYPES, LAYOUTS, ROADS, EPILOGUES)))
            _, types, layout, road, epilogue = words
            spec = _spec(kind, types, layout, epilogue) if _is_legal(*words) else None
            if spec is not None and all(words != each.words for each in found):
                found.append(Draw(number, words, spec, *ROADS[road]))
                break
        else:
            raise AssertionError(f"draw {number} finds no legal words for {kind}")
    return found
