"""Lists of matrices: what a spec refuses, and the schedules that take them."""

from dataclasses import replace
from typing import Any

import pytest

import lowtide as lt
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.problem_ir import problem_text, seen_by_passes
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, SpecError
from lowtide.passes.schedules.choice.choice import choose
from lowtide.targets import get

TYPES = {"a": "bf16", "b": "bf16", "d": "bf16", "lists": "b"}
OF_PRODUCTS = {"batch": None, "counts": True, "lists": "abd"}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"groups": 2, "lists": "a"}, "unknown-word"),
        ({}, "lists-groups"),
        ({"groups": lt.Groups(2, "k"), "layout": "nt"}, "lists-groups"),
        ({"batch": 2, "d_order": "column"}, "lists-beside"),
        ({"groups": 2, "pairs": "stacked", "epilogue": lt.swiglu}, "lists-beside"),
        ({"groups": 2, "lists": "abd"}, "lists-counts"),
        ({"batch": 2, "lists": "abd"}, "lists-counts"),
        ({"groups": 2, "lists": "d"}, "lists-d"),
        (
            {"batch": 2, "counts": True, "lists": "abd", "a": "e4m3", "b": "e4m3", "block_scales": lt.BlockScales()},
            "lists-beside",
        ),
        ({"groups": 2, "b": "s4", "group": 128}, "lists-beside"),
        ({"groups": 2, "a": "f32", "b": "f32", "d": "f32", "precision": "tf32x3"}, "lists-beside"),
    ],
)
def test_a_spec_that_is_not_supported_is_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(SpecError, match=rf"\[{code}\]"):
        lt.GemmSpec(**(TYPES | fields))


@pytest.mark.parametrize(
    "fields", [{"groups": 2}, {"batch": None}, {"batch": None, "counts": True}, {"batch": 3, "lists": "d"}, OF_PRODUCTS]
)
def test_the_ir_has_all_of_the_spec(fields: dict[str, Any]) -> None:
    spec = lt.GemmSpec(**(TYPES | fields))
    with make_context() as context:
        module = parse_text(problem_text(spec, get("sm_90a")), context, "<problem>")
        found = spec_of(module).spec
    assert replace(found, epilogue=None) == spec


@pytest.mark.parametrize(
    ("given", "way_out"),
    [
        ("roles = cooperative(2), b.copy = tma.3d", "take cp.async.16 or cp.async.8 or .* or tma"),
        ("b.pack = rows", "take none"),
        ("grid.operands = swapped", "take as_given"),
    ],
)
def test_a_field_that_lists_do_not_support_is_refused(given: str, way_out: str) -> None:
    problem = seen_by_passes(lt.GemmSpec(batch=2, **TYPES), get("sm_90a"))
    with pytest.raises(ScheduleError, match=rf"lie; {way_out}.*\[lists-field\]"):
        choose(problem, get("sm_90a"), Schedule.parse(given))


@pytest.mark.parametrize(
    ("types", "k", "copy"),
    [("bf16", None, "tma"), ("bf16", 64, "tma"), ("bf16", 66, "cp.async.4"), ("f16", 65, "cp.async.4")],
)
def test_tma_loads_a_list_and_threads_load_narrow_rows(types: str, k: int | None, copy: str) -> None:
    spec = lt.GemmSpec(groups=8, n=512, k=k, **(TYPES | dict.fromkeys("abd", types)))
    chosen = choose(seen_by_passes(spec, get("sm_90a")), get("sm_90a"), Schedule()).schedule
    assert (chosen.mainloop.a.copy, chosen.mainloop.b.copy, chosen.mainloop.b.pack) == ("tma", copy, None)


@pytest.mark.parametrize("given", ["epilogue.path = tma", "a.copy = tma.3d", "a.pack = rows"])
def test_a_field_that_lists_of_products_do_not_support_is_refused(given: str) -> None:
    problem = seen_by_passes(lt.GemmSpec(**(TYPES | OF_PRODUCTS)), get("sm_90a"))
    with pytest.raises(ScheduleError, match=r"\[lists-field\]"):
        choose(problem, get("sm_90a"), Schedule.parse(given))


@pytest.mark.parametrize(
    ("fields", "target", "copies"),
    [
        ({"groups": 8}, "sm_90a", ("tma", "tma")),
        ({"groups": 8, "a_rows": True}, "sm_90a", ("cp.async.16", "tma")),
        ({"groups": 8}, "sm_80", ("cp.async.16", "cp.async.16")),
        (OF_PRODUCTS, "sm_90a", ("tma", "tma")),
        (OF_PRODUCTS | {"k": 66}, "sm_90a", ("cp.async.4", "cp.async.4")),
        (OF_PRODUCTS | {"layout": "nt", "m": None}, "sm_90a", ("tma", "tma")),
        (OF_PRODUCTS, "sm_80", ("cp.async.16", "cp.async.16")),
        (OF_PRODUCTS | dict.fromkeys("abd", "f32"), "sm_90a", ("staged.16", "staged.16")),
    ],
)
def test_tma_is_the_choice_where_a_kernel_has_roles(
    fields: dict[str, Any], target: str, copies: tuple[str, str]
) -> None:
    problem = seen_by_passes(lt.GemmSpec(**(TYPES | fields)), get(target))
    mainloop = choose(problem, get(target), Schedule()).schedule.mainloop
    assert (mainloop.a.copy, mainloop.b.copy) == copies
