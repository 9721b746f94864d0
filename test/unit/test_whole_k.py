"""A K that is not divided may be asked for wherever a division is refused, as `numerics="batch_invariant"` does."""

from typing import Any

import pytest

import lowtide as lt
from lowtide.compiler.chosen import chosen
from lowtide.compiler.numerics import chosen_with
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.targets import get

TYPES: dict[str, Any] = {"m": None, "n": 64, "k": None, "a": "bf16", "b": "bf16", "d": "bf16"}
KINDS: dict[str, dict[str, Any]] = {
    "arrivals-field": {"batch": 2, "arrivals": True, "peers": True},
    "groups-field": {"groups": lt.Groups(3, axis="k"), "layout": "nt"},
    "taken-rows-field": {"groups": 3, "a_rows": True},
    "placed-rows-field": {"groups": 3, "d_rows": True},
}


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("code", KINDS)
def test_k_may_be_whole_but_not_divided(code: str, target: str) -> None:
    spec, gpu = lt.GemmSpec(**TYPES, **KINDS[code]), get(target)
    whole = chosen(spec, gpu, Schedule.parse("grid.k_division = none"))
    assert whole == chosen(spec, gpu).set({"grid.k_division": whole.grid.k_division})
    assert chosen_with(spec, gpu, "batch_invariant") == whole
    with pytest.raises(ScheduleError, match=rf"split\(2\): .*; take none \[{code}\]"):
        chosen(spec, gpu, Schedule.parse("grid.k_division = split(2)"))
