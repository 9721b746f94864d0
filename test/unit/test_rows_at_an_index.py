"""Rows of A at an index: what a spec refuses, and the schedules that take them."""

from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.problem_ir import seen_by_passes
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, SpecError
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.rules.taken_rows import WITH_TAKEN_ROWS
from lowtide.targets import get

TYPES = {"a": "bf16", "b": "bf16", "d": "bf16"}


def named(acc, a_rows: lt.PerRow):
    return acc + a_rows


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"a_rows": 3}, "a-rows-word"),
        ({"batch": 2}, "a-rows-beside"),
        ({"layout": "nn"}, "a-rows-beside"),
        ({"d_order": "column"}, "a-rows-beside"),
        ({"b": "s8"}, "a-rows-beside"),
        ({"groups": lt.Groups(2, "k"), "layout": "nt"}, "a-rows-beside"),
        ({"a": "f32", "b": "f32", "d": "f32", "precision": "tf32x3"}, "a-rows-beside"),
        ({"epilogue": named}, "a-rows-operand-name"),
    ],
)
def test_a_spec_that_is_not_supported_is_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(SpecError, match=rf"\[{code}\]"):
        lt.GemmSpec(**(TYPES | {"a_rows": True} | fields))


def test_a_has_any_number_of_rows() -> None:
    spec = lt.GemmSpec(m=90, k=40, **TYPES, a_rows=True)
    assert (spec.a_shape, spec.d_shape) == ((None, 40), (90, None))
    given = lt.random_inputs(spec, None, 24, None, np.random.default_rng(0))
    assert given["a"].shape == (46, 40) and given["a_rows"].shape == (90,)
    exists = (given["a_rows"] >= 0) & (given["a_rows"] < 46)
    assert not exists.all() and exists.any()
    assert ((lt.reference(spec, **given) != 0).all(axis=1) == exists).all()


@pytest.mark.parametrize("groups", [lt.UNGROUPED, 8])
def test_threads_copy_the_rows_beside_tma_for_b(groups: Any) -> None:
    spec = lt.GemmSpec(m=8192, n=4096, k=2048, groups=groups, **TYPES, a_rows=True)
    found = choose(seen_by_passes(spec, get("sm_90a")), get("sm_90a"), Schedule()).schedule
    assert (found.mainloop.a.copy, found.mainloop.b.copy) == ("cp.async.16", "tma")
    assert found.multiply.atom is not None and found.multiply.atom.startswith("wgmma")
    assert str(found.epilogue.path) == "tma"


REFUSED = {
    "grid.operands": "swapped",
    "grid.cluster": "[2, 1]",
    "grid.tail": "halves",
    "grid.k_division": "split(2)",
    "mainloop.prologue": "once",
    "mainloop.a.load": "once",
    "mainloop.a.copy": "tma",
}


@pytest.mark.parametrize("path", WITH_TAKEN_ROWS)
def test_a_field_that_is_not_supported_is_refused(path: str) -> None:
    spec, given = lt.GemmSpec(**TYPES, a_rows=True), Schedule.parse(f"{path} = {REFUSED[path]}")
    with pytest.raises(ScheduleError, match=rf"{path.rpartition('.')[2]}.*\[taken-rows-field\]"):
        choose(seen_by_passes(spec, get("sm_90a")), get("sm_90a"), given)


def test_tuning_is_refused() -> None:
    with pytest.raises(SpecError, match=r"\[a-rows-tuned\]"):
        lt.tune(lt.GemmSpec(m=64, n=64, k=64, **TYPES, a_rows=True))
