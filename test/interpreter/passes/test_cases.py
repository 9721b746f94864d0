"""What the cases as a whole must show: every pass is tried, upstream's too, and CTAs compute several tiles."""

from collections.abc import Callable

import numpy as np
import pytest
from by_level import ALL, case_named
from case import Case, check, step_named
from cases import CASES, CLEARING, EVERY, OURS, PACKING, SPLITTING, WITH_ROLES
from compiled import Step, expected, inputs_of, last_texts
from mlir import ir
from role_cases import CASES as WITH_A_PRODUCER

import lowtide as lt
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.pass_pipeline import parse_pipeline, run_element
from lowtide.compiler.problem_ir import problem_text
from lowtide.dialects.levels import Level
from lowtide.interpreter import Trace, interpret
from lowtide.passes.base import Pass
from lowtide.passes.pipeline import STEPS


def test_every_pass_down_to_level_nvvm_is_tried() -> None:
    ours = {step.name for level, steps in STEPS.items() if level <= Level.NVVM for step in steps} & OURS
    assert {name for case in ALL for name in case.passes} >= ours - {
        "expand-math",
        "stamp-agents",
        *PACKING,
        *SPLITTING,
        *CLEARING,
    }  # which have tests of their own


def test_case_names_are_unique() -> None:
    assert len({case.name for case in ALL}) == len(ALL)


def test_upstreams_passes_keep_the_numbers_too(steps: Callable[[Case], list[Step]]) -> None:
    case = CASES[0]
    upstream = [step for step in steps(case) if step.name not in OURS]
    assert {step.name for step in upstream} == {"cse", "canonicalize"}
    for step in upstream:
        check(step, case.spec, case.shapes[0], orders=(0,))


def test_passes_on_roles_leave_a_kernel_without_them_alone(steps: Callable[[Case], list[Step]]) -> None:
    case = CASES[0]
    assert set(EVERY) == set(case.passes)
    assert not {step.name for step in steps(case) if step.after != step.before} & {*WITH_ROLES, *PACKING, *SPLITTING}


@pytest.mark.parametrize("name", ["tn", "stores-held-three", "roles-one", "roles-overlapped", "roles-staged-operand"])
def test_a_pass_says_that_it_changes_nothing_only_if_it_does_not(name: str) -> None:
    """A module that is as it was is not verified again."""
    case, context = case_named(name), make_context()
    with context, ir.Location.unknown():
        module = parse_text(problem_text(case.spec, case.target, lt.Schedule.parse(case.schedule)), context, name)
        quiet = 0
        for entry in (entry for level, entries in STEPS.items() if level <= Level.NVVM for entry in entries):
            for element in parse_pipeline(entry.text(case.target), context):
                if not isinstance(element, Pass):
                    run_element(element, module, case.target)
                    continue
                before = str(module)
                if element.run(module, case.target) is False:
                    quiet += 1
                    assert str(module) == before, element.name
        assert quiet >= 6


@pytest.mark.parametrize("name", ["persistent", "persistent-direct"])
def test_the_persistent_kernels_give_each_cta_at_least_three_work_tiles(
    steps: Callable[[Case], list[Step]], name: str
) -> None:
    case = case_named(name)
    after = step_named(steps(case), "tile-to-ctas").after
    for shape in case.shapes:
        trace = Trace()
        interpret(after, inputs_of(case.spec, *shape), sms=2, domain="exact", trace=trace)
        assert min(map(len, trace.tiles().values())) >= 3


@pytest.mark.parametrize("case", WITH_A_PRODUCER[:6], ids=lambda case: case.name)
def test_every_level_of_a_kernel_with_roles_gives_the_same_d_under_every_order(
    steps: Callable[[Case], list[Step]], case: Case
) -> None:
    last = last_texts(steps(case))
    inputs = inputs_of(case.spec, 70, 40, 200)  # four tiles for one CTA
    for level in (Level.CTA, Level.PIPELINED, Level.ATOMS, Level.EPILOGUE, Level.NVVM):
        for seed in (0, 1, 2):
            found = interpret(last[level], inputs, sms=1, seed=seed, domain="exact")
            assert np.array_equal(found, expected(case.spec, inputs)), (level, seed)
