"""The levels, their table of legal ops, and the check of a module against it."""

import pytest
from mlir import ir

from lowtide.compiler.contexts import make_context
from lowtide.dialects import levels, sm, tile
from lowtide.dialects.levels import DEVICE_OPS, HOST_OPS, RULES, Level, check_level, level_of, set_level, target_of
from lowtide.errors import IRError, TargetError


def parse(text: str) -> ir.Module:
    return ir.Module.parse(text, make_context())


def test_levels_are_numbered_in_the_order_of_the_road() -> None:
    assert [str(level) for level in Level] == [
        "problem",
        "cta",
        "smem",
        "pipelined",
        "atoms",
        "epilogue",
        "nvvm",
        "llvm",
        "ptx",
    ]
    assert [level.value for level in Level] == list(range(1, 10))
    assert Level.CTA < Level.SMEM


def test_an_unknown_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(IRError, match=r"'smen'.*problem, cta, smem.*\[unknown-level\]"):
        Level.named("smen")


def test_level_and_target_are_read_off_the_module() -> None:
    module = parse('module attributes {tile.level = "smem", tile.target = "sm_90"} {}')
    assert level_of(module) is Level.SMEM
    assert target_of(module).name == "sm_90"
    set_level(module, Level.ATOMS)
    assert level_of(module) is Level.ATOMS


@pytest.mark.parametrize(
    ("attributes", "read", "message"),
    [
        ("", level_of, r"tile\.level.*\[module-lacks\]"),
        ("tile.level = 3 : i32", level_of, r"tile.level is 3 : i32, not a string.*\[module-attribute\]"),
        ("", target_of, r"tile\.target.*\[module-lacks\]"),
    ],
)
def test_a_missing_or_odd_attribute_is_named(attributes: str, read: object, message: str) -> None:
    with pytest.raises(IRError, match=message):
        read(parse(f"module attributes {{{attributes}}} {{}}"))  # type: ignore[operator]


def test_an_unknown_target_on_the_module_is_refused() -> None:
    with pytest.raises(TargetError, match=r"sm_81.*\[unknown-target\]"):
        target_of(parse('module attributes {tile.target = "sm_81"} {}'))


def test_every_op_in_the_table_is_an_op() -> None:
    context = make_context()
    context.load_all_available_dialects()
    for table in (HOST_OPS, DEVICE_OPS):
        for name, life in table.items():
            assert life.first <= life.last, name
            if not name.endswith("*"):
                assert context.is_registered_operation(name), name


def test_every_op_of_our_dialects_has_a_place_in_the_table() -> None:
    for dialect in (tile, sm):
        for value in vars(dialect).values():
            if isinstance(value, type) and issubclass(value, ir.OpView) and value is not ir.OpView:
                name = value.OPERATION_NAME
                assert levels.life_of(name, True) or levels.life_of(name, False), name


def test_rules_speak_of_levels_where_their_op_lives() -> None:
    for rule in RULES:
        life = levels.life_of(rule.op, host=False) or levels.life_of(rule.op, host=True)
        assert life is not None and life.first <= rule.first <= rule.last <= life.last, rule.op


def kernel(body: str) -> str:
    start = "module { tile.kernel @k(%m: memref<8x8xf16>) {\n  %c0 = arith.constant 0 : index"
    return f"{start}\n{body}\n  tile.return }} }}"


def test_an_op_past_its_last_level_is_named_with_its_place_and_the_step_that_should_have_replaced_it() -> None:
    module = parse(kernel("  sm.barrier"))
    check_level(module, Level.EPILOGUE)
    with pytest.raises(
        IRError,
        match=r"-:1:\d+: tile.kernel does not belong in device code at level nvvm; it lives from cta to epilogue: "
        r"the step to nvvm should have replaced it",
    ):
        check_level(module, Level.NVVM)


def test_an_op_before_its_first_level_is_refused() -> None:
    with pytest.raises(IRError, match=r"-:3:3: sm\.barrier.*device.*cta.*smem.*\[before-its-levels\]"):
        check_level(parse(kernel("  sm.barrier")), Level.CTA)


def test_host_ops_do_not_stand_in_device_code() -> None:
    with pytest.raises(
        IRError, match=r"sm_count does not belong in device code .*; it belongs to the other.*\[not-at-any-level\]"
    ):
        check_level(parse(kernel("  %s = tile.sm_count : index")), Level.CTA)


def test_a_foreign_op_belongs_to_no_level() -> None:
    text = "func.func @f(%a: memref<2xf32>, %i: index, %x: f32) { memref.store %x, %a[%i] : memref<2xf32> return }"
    with pytest.raises(IRError, match=r"memref\.store.*host.*cta.*no level.*\[not-at-any-level\]"):
        check_level(parse(text), Level.CTA)


def test_the_longest_family_counts() -> None:
    assert levels.life_of("math.exp2", host=False) == (Level.CTA, Level.NVVM)
    assert levels.life_of("math.erf", host=False) == (Level.CTA, Level.EPILOGUE)


@pytest.mark.parametrize("level", [Level.SMEM, Level.PIPELINED])
def test_from_smem_on_an_mma_reads_buffers(level: Level) -> None:
    module = parse(
        kernel("""
  %v = tile.view %m[%c0, %c0] : memref<8x8xf16> to !tile.view<8x8xf16>
  %z = tile.splat 0.0 : !tile.tile<8x8xf32>
  %r = tile.mma tn %v, %v, %z : !tile.view<8x8xf16>, !tile.view<8x8xf16>, !tile.tile<8x8xf32>""")
    )
    check_level(module, Level.CTA)
    with pytest.raises(
        IRError, match=rf"at level {level} tile.mma multiplies buffers in shared memory.*\[form-at-level\]"
    ):
        check_level(module, level)


def test_at_epilogue_every_buffer_has_its_place() -> None:
    body = "  %s = sm.alloc {} : memref<8x8xf16, #gpu.address_space<workgroup>>"
    check_level(parse(kernel(body.format("at 0"))), Level.EPILOGUE)
    with pytest.raises(IRError, match=r"sm.alloc has its place, `at`, in shared memory; this one.*\[form-at-level\]"):
        check_level(parse(kernel(body.format(""))), Level.EPILOGUE)


def test_ptx_is_no_level_of_ir() -> None:
    with pytest.raises(IRError, match=r"\[level-is-text\]"):
        check_level(parse("module {}"), Level.PTX)
