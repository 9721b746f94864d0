"""Schedules that are chosen for some extents and serve others: each field is legal for a kernel of run-time extents."""

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide import targets
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import lower
from lowtide.compiler.matmul.arrangement import Product
from lowtide.compiler.matmul.compilation import compile_class, compile_tuned
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.matmul.shape_class import ShapeClass, class_of
from lowtide.compiler.numerics_words import BATCH_INVARIANT, NUMERICS
from lowtide.compiler.problem_ir import problem_text, seen_by_passes
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import EpilogueStart, OperandsKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import IRError
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.choice.opening import opened
from lowtide.passes.schedules.rules.rules import broken_rule

# N × K of products in models
WIDTHS = [
    (2880, 2880),
    (14336, 4096),
    (8192, 8192),
    (4096, 4096),
    (5120, 13824),
    (28672, 8192),
    (1024, 4096),
    (3072, 8192),
    (2048, 7168),
    (151936, 1024),
    (6144, 4096),
    (11008, 4096),
]
ROWS = (1, 100, 4096)


def class_with(m: int, n: int, k: int, numerics: str, target: str, dtype: str = "bf16") -> ShapeClass:
    return class_of(Product(dtype, dtype, dtype, "tn", "row", None, m, n, k, True, True), Options(numerics), target)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("n", "k"), WIDTHS)
def test_the_schedule_of_each_class_is_legal_for_all_extents(n: int, k: int, target: str) -> None:
    chip = targets.get(target)
    whole = seen_by_passes(class_with(1, n, k, "any", target).spec(None), chip)
    classes = [class_with(m, n, k, numerics, target) for m in ROWS for numerics in NUMERICS]
    examples = [(of.given, example.extents) for of in classes for example in (of, of.reference or of)]
    for given, extents in {str(each): each for each in examples}.values():
        schedule = choose(whole.expecting(extents), chip, Schedule.parse(given)).schedule
        own = whole.swap() if schedule.grid.operands is OperandsKind.swapped else whole
        assert broken_rule(schedule, own, chip) is None, (given, extents)


def test_short_k_is_chosen_for_known_extents_alone() -> None:
    """Its fields (K steps that are written out, operands that stay, stores that overlap) want known ones."""
    chip = targets.get("sm_90")
    of = class_with(16384, 256, 256, "any", "sm_90")
    known = choose(seen_by_passes(replace(of.spec(None), m=81920, n=256, k=256), chip), chip, Schedule()).schedule
    whole = seen_by_passes(of.spec(None), chip)
    assert known.mainloop.unroll is not None and broken_rule(known, whole, chip) is not None
    assert broken_rule(choose(whole.expecting(of.extents), chip, Schedule()).schedule, whole, chip) is None
    assert opened(known, whole, chip) == known  # without an operand that stays, its stages do not fit


def test_batch_invariant_products_of_many_columns_are_compiled() -> None:
    of = class_with(100, 2880, 2880, BATCH_INVARIANT, "sm_90a")
    assert compile_class(of, None).summation == compile_class(of.reference or of, None).summation


def test_what_was_tuned_for_known_extents_serves_others_without_the_fields_that_need_them() -> None:
    of = class_with(4096, 2880, 2880, "repeatable", "sm_90a")
    chip = targets.get("sm_90a")
    tuned = choose(seen_by_passes(of.example(None), chip), chip, Schedule()).schedule
    assert tuned.epilogue.start is EpilogueStart.first_rows
    kernel = compile_tuned(of, None, tuned.shorthand(), keeps_bits=True)
    assert kernel.schedule.epilogue.start is None
    assert kernel.schedule.tile_mnk == tuned.tile_mnk


def test_pieces_are_expected_as_long_as_they_lie_side_by_side() -> None:
    spec = lt.GemmSpec(m=None, n=512, k=None, a="f32", b="f32", d="f32", precision="tf32x3")
    chip = targets.get("sm_90a")
    text = problem_text(spec, chip, None, {"m": 512, "k": 2048})
    lowered = lower(text, until=Level.PROBLEM)
    with make_context() as context:
        found = Schedule.carried_by(parse_text(lowered.levels["problem"], context, "<test>"))
    assert found == choose(seen_by_passes(spec, chip).expecting({"m": 512, "k": 2048}), chip, Schedule()).schedule


@pytest.mark.parametrize("given", ["{m = 0}", "{depth = 3}", '"4096"', '{m = "4096"}'])
def test_extents_that_are_none_are_refused(given: str) -> None:
    text = problem_text(lt.GemmSpec(a="f16", b="f16", d="f16"), targets.get("sm_80"), None, {"m": 16})
    with pytest.raises(IRError, match=r"tile.expected = .*: it names extents of at least 1.*\[expected-extents\]"):
        lower(text.replace("{m = 16 : i64}", given), until=Level.PROBLEM)
