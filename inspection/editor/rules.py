"""The rules of the level that a module names, as a compilation that starts from the module applies them."""

from mlir import ir

from lowtide.compiler.driver import AFTER_ATTRIBUTE, steps_done
from lowtide.compiler.pass_pipeline import parse_pipeline, run_pipeline
from lowtide.dialects.levels import TARGET_ATTRIBUTE, Level, check_level, level_of, target_of
from lowtide.passes.pipeline import ENTRY_STEP, STEPS
from lowtide.passes.steps import Step


def check_rules(module: ir.Module) -> None:
    """Raise Error for the first broken rule. The module is changed.

    A finished level is checked for legal ops; `verify-schedule` and the other passes that verify run on it. In level
    `problem`, and between two steps of a level, the remaining steps of the level run, and then its ops are checked.
    Without a target, only ops are checked.
    """
    level, attributes = level_of(module), module.operation.attributes
    resumed = AFTER_ATTRIBUTE in attributes
    if not resumed:
        check_level(module, level)
    if TARGET_ATTRIBUTE not in attributes:
        return
    target = target_of(module)
    steps: tuple[Step, ...] = (ENTRY_STEP,)
    if level is Level.PROBLEM or resumed:
        after = ir.StringAttr(attributes[AFTER_ATTRIBUTE]).value if resumed else None
        steps = STEPS[level][steps_done(level, after) :]
    for step in steps:
        run_pipeline(parse_pipeline(step.text(target), module.context), module, target)
    if resumed:
        check_level(module, level)
