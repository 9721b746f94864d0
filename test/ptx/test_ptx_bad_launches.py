"""Descriptions of launches with arbitrary changes give verdicts or refusals, never another exception."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lowtide.errors import Error
from lowtide.interpreter.launching import parsed
from lowtide.ptx.estimate import estimate
from lowtide.ptx.judging import run_judged
from lowtide.ptx.launch_files import read_launch
from lowtide.ptx.settings import Settings

KERNELS = Path(__file__).parent / "kernels"
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 3, 255, 2**31, 2**63, -(2**63), 2**70, 0.5, 1e308, float("nan"), float("inf")),
    *("", "x", "f32", "u8", "64B", "pointer", "tensor_map", "null", "scratch", "bytes", "exact", "00", "in", "a\0"),
    *([], [1], [-1], [1, 2], [2**40], ["x"], [None], [[1]], {}, {"a": 1}, {"kind": "pointer"}),
)
FIELDS = (
    "relocations",
    "strides",
    "address_mod_256",
    "address",
    "box",
    "swizzle",
    "element",
    "fill",
    "hex",
    "bytes",
    "name",
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in an object of JSON."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        yield (*path, key)
        yield from paths(part, (*path, key))


def changed(launch: Any, draws: random.Random) -> Any:
    """A copy in which a value is deleted, replaced or added."""
    launch = copy.deepcopy(launch)
    *path, key = draws.choice([*paths(launch)])
    place = launch
    for each in path:
        place = place[each]
    kind = draws.randrange(4)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, dict):
        place[draws.choice(FIELDS)] = draws.choice(VALUES)
    else:
        place[key] = draws.choice(VALUES)
    return launch


@pytest.mark.parametrize(("name", "count"), [("block_reduce", 60), ("matmul_tma_128b", 25), ("struct_param", 60)])
def test_changed_launches_give_verdicts_or_refusals(name: str, count: int, tmp_path: Path) -> None:
    draws, folder = random.Random(name), KERNELS / name
    source, launch = parsed((folder / "kernel.ptx").read_text()), json.loads((folder / "launch.json").read_text())
    kinds = []
    for _ in range(count):
        (tmp_path / "launch.json").write_text(json.dumps(changed(launch, draws)))
        files = tmp_path / "launch.json", folder / "before.npz", folder / "after.npz"
        try:
            given = read_launch(source.module, *files, None)
            estimate(source, given.record)
            kinds.append(run_judged(source, given.record, given.expected, Settings(max_steps=3000)).kind)
        except Error:
            kinds.append("refused")
    assert count / 4 < kinds.count("refused") < 0.95 * count and "ok" in kinds and "interpreter-failed" not in kinds
