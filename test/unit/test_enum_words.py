"""Every word of every enum of the dialects, on both roads: it has code of its own, or is refused by name.

The words are read off the enums, so that a new one is covered when it is added.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import IntEnum
from functools import cache

import pytest
from mlir import ir

import lowtide as lt
from lowtide import targets
from lowtide.compiler.kernel import CompiledKernel
from lowtide.dialects import sm, tile
from lowtide.dialects.sm import ClusterLine, SlotUse
from lowtide.dialects.tile import (
    CacheHint,
    EpilogueMath,
    EpilogueStart,
    GemmLayout,
    KOrderKind,
    LaunchKind,
    OperandKind,
    PromoteKind,
    RasterKind,
    RepeatKind,
    ScalesKind,
    SchedulerKind,
    SenderKind,
    StageOrder,
    StorePath,
    TailKind,
    UnrollKind,
    WavesKind,
    WorkPart,
)
from lowtide.passes.base import walk
from lowtide.passes.llvm.convert_ptx_ops_to_asm import ConvertPtxOpsToAsm
from lowtide.passes.nvvm.convert_sm_to_nvvm import ConvertSmToNvvm
from lowtide.passes.nvvm.work import work_tiles
from lowtide.passes.support.problem.operand_kinds import ARRIVALS, SCALES, SENDS

TARGETS = ("sm_80", "sm_90a")


@cache
def kernel(target: str) -> CompiledKernel:
    return lt.compile_gemm(lt.GemmSpec(m=4096, n=4096, k=4096, a="bf16", b="bf16", d="bf16"), target=target)


def outcomes(words: Iterable[IntEnum], code: Callable[[str], str]) -> dict[str, str]:
    """By word: the code, or the error of ours that refuses it."""
    found = {}
    for word in map(str, words):
        try:
            found[word] = code(word)
        except lt.Error as error:
            found[word] = f"refused: {error}"
    return found


def check(found: Mapping[str, str]) -> set[str]:
    """Each word's code is its own, and a refusal names its word. Gives the words that are taken."""
    refused = {word: text for word, text in found.items() if text.startswith("refused: ")}
    for word, text in refused.items():
        assert word in text, f"the refusal of {word} does not name it: {text}"
    taken = {word: text for word, text in found.items() if word not in refused}
    assert len(set(taken.values())) == len(taken), f"of {', '.join(taken)}, two give the same code"
    return set(taken)


def lowered(target: str, edit: Callable[[ir.Module], None]) -> str:
    """The device code of the kernel, edited at level epilogue."""
    return lowered_text(kernel(target).levels["epilogue"], target, edit)


def lowered_text(text: str, target: str, edit: Callable[[ir.Module], None]) -> str:
    """The device code of a kernel of level epilogue, edited."""
    with ir.Context() as context, ir.Location.unknown():
        context.emit_error_diagnostics = True
        module = ir.Module.parse(text)
        edit(module)
        for step in (ConvertSmToNvvm(), ConvertPtxOpsToAsm()):
            step.apply(module, targets.get(target))
        return str(module)


def raster(word: str) -> ir.Attribute:
    """An order of this word, with as many numbers as it takes."""
    for numbers in ("", " 2", " 2, 3"):
        try:
            return ir.Attribute.parse(f"#tile.raster<{word}{numbers}>")
        except ir.MLIRError:
            continue
    raise lt.IRError(f"{word} takes other numbers")


def orders(target: str) -> dict[str, str]:
    def edit(module: ir.Module, word: str) -> None:
        for work in walk(module, tile.WorkTilesOp):
            work.attributes["order"] = raster(word)

    return outcomes(RasterKind, lambda word: lowered(target, lambda module: edit(module, word)))


def with_enum(op_class: type[ir.OpView], name: str, enum: type[IntEnum], word: str) -> Callable[[ir.Module], None]:
    def edit(module: ir.Module) -> None:
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), enum[word])
        ops = walk(module, op_class)
        assert ops
        for op in ops:
            op.operation.attributes[name] = number

    return edit


@pytest.mark.parametrize("target", TARGETS)
def test_every_order_has_code_of_its_own(target: str) -> None:
    assert check(orders(target)) == set(map(str, RasterKind))


@pytest.mark.parametrize("target", TARGETS)
def test_every_scheduler_has_code_of_its_own(target: str) -> None:
    def code(word: str) -> str:
        return lowered(target, with_enum(tile.WorkTilesOp, "scheduler", SchedulerKind, word))

    assert check(outcomes(SchedulerKind, code)) == set(map(str, SchedulerKind))


def test_every_part_of_the_work_tiles_has_code_of_its_own() -> None:
    def code(word: str) -> str:
        return lowered("sm_90a", with_enum(tile.WorkTilesOp, "part", WorkPart, word))

    assert check(outcomes(WorkPart, code)) == set(map(str, WorkPart))


@pytest.mark.parametrize("target", TARGETS)
def test_every_layout_of_a_and_b_has_code_of_its_own(target: str) -> None:
    def code(word: str) -> str:
        spec = lt.GemmSpec(m=None, n=None, k=None, a="bf16", b="bf16", d="bf16", layout=word)
        return lt.compile_gemm(spec, target=target, schedule="grid.tile = [64, 64]").ptx

    assert check(outcomes(GemmLayout, code)) == set(map(str, GemmLayout))


class Roles(IntEnum):
    """The words of the shorthand for agents."""

    single = 0
    cooperative = 1
    pingpong = 2

    def __str__(self) -> str:
        return self.name


# Whole tiles of few K steps, which are stored during the next one.
_HELD = ", epilogue.path = direct, roles = single, prologue = once, unroll = full, k = 256, grid.tile = [64, 64]"


@pytest.mark.parametrize(
    ("field", "enum", "taken"),
    [
        ("roles", Roles, {"sm_80": {"single"}, "sm_90a": {"single", "cooperative", "pingpong"}}),
        ("tail", TailKind, {"sm_80": {"whole"}, "sm_90a": {"whole", "halves"}}),
        ("waves", WavesKind, {"sm_80": {"free"}, "sm_90a": {"free", "synchronized"}}),
        ("sender", SenderKind, {name: {"copy_engine", "kernel"} for name in TARGETS}),
        ("path", StorePath, {"sm_80": {"smem", "direct"}, "sm_90a": {"smem", "direct", "tma"}}),
        ("prologue", RepeatKind, {"sm_80": {"per_tile", "once"}, "sm_90a": {"per_tile", "once"}}),
        ("unroll", UnrollKind, {"sm_80": {"none", "full"}, "sm_90a": {"none", "full"}}),
        ("promote", PromoteKind, {"sm_80": {"none", "per_step"}, "sm_90a": {"none", "per_step", "overlapped"}}),
        ("scales", ScalesKind, {"sm_80": {"direct"}, "sm_90a": {"direct", "staged"}}),
        (
            "start",
            EpilogueStart,
            {"sm_80": {"all_sums", "next_tile"}, "sm_90a": {"all_sums", "first_rows", "next_tile"}},
        ),
        ("k_order", KOrderKind, {"sm_80": {"forward"}, "sm_90a": {"forward", "serpentine"}}),
        ("launch", LaunchKind, {"sm_80": {"serialized"}, "sm_90a": {"serialized", "programmatic"}}),
        (
            "grid.tile = [128, 128], math",
            EpilogueMath,
            {"sm_80": {"registers", "rows"}, "sm_90a": {"registers", "rows"}},
        ),
    ],
    ids=[
        "roles",
        "tail",
        "waves",
        "sender",
        "path",
        "prologue",
        "unroll",
        "promote",
        "scales",
        "start",
        "k_order",
        "launch",
        "math",
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_every_word_of_a_schedule_field_has_code_of_its_own_or_is_refused(
    target: str, field: str, enum: type[IntEnum], taken: Mapping[str, set[str]]
) -> None:
    spec = lt.GemmSpec(m=512, n=512, k=4096, a="bf16", b="bf16", d="f32")
    if enum is ScalesKind and target == "sm_90a":  # no other product has any
        spec = replace(spec, a="e4m3", b="e4m3", block_scales=lt.BlockScales())
    if enum is SenderKind:
        spec = replace(spec, batch=2, arrivals=True, peers=True)

    # Small tiles have less code. Half tiles and rows that are stored early need larger ones.
    tile = "" if field in ("tail", "start") or "tile" in field else ", grid.tile = [64, 64]"

    def code(word: str) -> str:
        errors = []
        # Other fields that a word may need: a number, a path through shared memory, or few steps of K.
        for rest in (tile, f"(1){tile}", f"(2){tile}", f", path = smem{tile}", f", k = 256{tile}", _HELD):
            try:
                return lt.compile_gemm(spec, target=target, schedule=f"{field} = {word}{rest}").ptx
            except lt.Error as error:
                errors.append(str(error))
        raise lt.ScheduleError("; ".join(errors))

    assert check(outcomes(enum, code)) == taken[target]


@pytest.mark.parametrize("target", TARGETS)
def test_every_kind_of_epilogue_operand_has_code_of_its_own(target: str) -> None:
    mat = "memref<?x?xbf16, strided<[?, 1]>>"
    template = """
    module attributes {{tile.level = "problem", tile.target = "{target}"}} {{
    func.func @gemm(%a: {mat}, %b: {b}, %d: {mat}, {given}{scales}%x: {type}) {{
      tile.gemm tn %a, %b into {results} acc(f32) {clauses}{word} %x : {type})
          schedule(#tile.schedule<grid = <tile = [64, 64]>>) {{
      ^bb0(%acc: f32{element}):
        %sum = arith.addf %acc, {added} : f32
        %y = arith.truncf %sum : f32 to bf16
        tile.yield %y{also} : bf16{of}
      }} : {mat}, {b}, {mat}{result}
      return
    }}
    }}"""

    in_epilogue = {"b": mat, "clauses": "operands(", "element": ", %e: f32", "added": "%e", "scales": ""}
    in_the_sum = {"b": mat.replace("bf16", "ui8"), "element": "", "added": "%acc", "scales": ""}
    in_the_sum["clauses"] = "weights(si4) group(64) operands("
    in_groups = {"b": "memref<?x?x?xbf16, strided<[?, ?, 1]>>", "element": "", "added": "%acc"}
    zeros = {"clauses": f"{in_the_sum['clauses']}group_scale %s : {mat}, ", "scales": f"%s: {mat}, "}
    forms = {"group_scale": in_the_sum, "group_zero": in_the_sum | zeros}
    forms["ends"] = in_epilogue | in_groups
    forms |= dict.fromkeys(("a_rows", "d_rows"), in_epilogue | {"element": "", "added": "%acc"})
    forms["target"] = in_epilogue | {"element": "", "added": "%acc", "also": ", %acc", "of": ", f32"}
    forms["target"] |= {"given": "%v: memref<?xf32>, ", "results": "(%d, row_value %v)", "result": ", memref<?xf32>"}
    forms["amax"] = in_epilogue | {"element": "", "added": "%acc", "also": ", %sum", "of": ", f32"}

    def code(word: str) -> str:
        plain = {"also": "", "of": "", "given": "", "results": "%d", "result": ""}
        errors, form = [], plain | forms.get(word, in_epilogue)
        wide = ("memref<?x?xf32, strided<[?, 1]>>", "memref<?x?xsi8, strided<[?, 1]>>")
        for type_ in (*wide, "memref<?xf32>", "memref<1xf32>", "memref<?xi32>", "f32"):
            try:
                return lt.compile_ir(template.format(target=target, mat=mat, type=type_, word=word, **form)).ptx
            except lt.Error as error:
                errors.append(str(error))
        raise lt.IRError("; ".join(errors))

    together = (*SCALES, *ARRIVALS, *SENDS)  # tested where they come together
    read = [kind for kind in OperandKind if kind not in together]
    assert check(outcomes(read, code)) == set(map(str, read))


def test_every_kind_of_scale_has_code_of_its_own() -> None:
    mat, out = "memref<?x?xf8E4M3FN, strided<[?, 1]>>", "memref<?x?xf32, strided<[?, 1]>>"
    template = """
    module attributes {{tile.level = "problem", tile.target = "sm_90a"}} {{
    func.func @gemm(%a: {mat}, %b: {mat}, %d: {out}, %x: {out}, %y: {out}) {{
      tile.gemm tn %a, %b into %d acc(f32) operands({word} %x : {out}, {other} %y : {out})
          schedule(#tile.schedule<mainloop = <scales = direct>>) {{
      ^bb0(%acc: f32):
        tile.yield %acc : f32
      }} : {mat}, {mat}, {out}
      return
    }}
    }}"""

    def code(word: str) -> str:
        other = "column_scale" if word.startswith("row") else "row_scale"
        return lt.compile_ir(template.format(mat=mat, out=out, word=word, other=other)).ptx

    assert check(outcomes(SCALES, code)) == set(map(str, SCALES))


HINTED = [
    ("sm_80", sm.StoreGlobalOp, {"normal", "streaming", "write_through"}),
    ("sm_90a", sm.TmaLoadOp, {"normal", "evict_first", "evict_last"}),
    ("sm_90a", sm.TmaStoreOp, {"normal", "evict_first", "evict_last"}),
]


@pytest.mark.parametrize(("target", "op_class", "taken"), HINTED, ids=[op.OPERATION_NAME for _, op, _ in HINTED])
def test_every_cache_hint_has_code_of_its_own_or_is_refused(
    target: str, op_class: type[ir.OpView], taken: set[str]
) -> None:
    def code(word: str) -> str:
        return lowered(target, with_enum(op_class, "cache", CacheHint, word))

    assert check(outcomes(CacheHint, code)) == taken


@pytest.mark.parametrize(
    ("op_class", "name", "taken"),
    [
        (sm.TmaLoadOp, "multicast", {"row", "column"}),
        (sm.MbarrierArriveOp, "receivers", {"row", "column", "cross"}),
    ],
    ids=["multicast", "receivers"],
)
def test_every_line_of_a_cluster_has_code_of_its_own_or_is_refused(
    op_class: type[ir.OpView], name: str, taken: set[str]
) -> None:
    spec = lt.GemmSpec(m=4096, n=4096, k=4096, a="bf16", b="bf16", d="bf16")
    text = lt.compile_gemm(spec, target="sm_90a", schedule="grid.tile = [128, 128], cluster = [2, 2]").levels[
        "epilogue"
    ]

    def code(word: str) -> str:
        def edit(module: ir.Module) -> None:
            found = [op for op in walk(module, op_class) if name in op.operation.attributes]
            assert found
            number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), ClusterLine[word])
            for op in found:
                op.operation.attributes[name] = number
            if not module.operation.verify():
                raise lt.IRError(f"{word} is refused")

        try:
            return lowered_text(text, "sm_90a", edit)
        except ir.MLIRError as error:
            raise lt.IRError(f"{word}: {error}") from None

    assert check(outcomes(ClusterLine, code)) == taken


def slots(text: str) -> set[str]:
    """The uses of the slots that a module's values are."""
    with ir.Context(), ir.Location.unknown():
        found = set()

        def visit(op: ir.Operation) -> ir.WalkResult:
            found.update(value.type.use for value in op.results if isinstance(value.type, sm.SlotType))
            return ir.WalkResult.ADVANCE

        ir.Module.parse(text).operation.walk(visit)
        return found


SLOT = """
!ring = !sm.ring<2 x [memref<8x8xf32, #gpu.address_space<workgroup>>]>
func.func @f(%ring: !ring, %slot: !sm.slot<{word}>) {{
  {verb}
  return
}}"""
VERBS = [f"{name} %ring, %slot : !ring, !sm.slot<{{word}}>" for name in ("sm.producer_commit", "sm.consumer_release")]


def takes(verb: str, word: str) -> bool:
    with ir.Context() as context:
        try:
            ir.Module.parse(SLOT.format(verb=verb.format(word=word), word=word), context)
        except ir.MLIRError:
            return False
        return True


@pytest.mark.parametrize("target", TARGETS)
def test_every_use_of_a_slot_is_bound_to_instructions_or_taken_by_no_verb(target: str) -> None:
    levels = kernel(target).levels
    assert not slots(levels["atoms"])
    for use in map(str, SlotUse):
        verbs = [verb for verb in VERBS if takes(verb, use)]
        assert len(verbs) == (1 if use in slots(levels["pipelined"]) else 0), use
    assert {"write", "read"} <= slots(levels["pipelined"])


def test_two_words_with_one_lowering_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that the checks above are for."""
    monkeypatch.setitem(work_tiles.ORDERS, RasterKind.column, work_tiles.ORDERS[RasterKind.row])
    with pytest.raises(AssertionError, match="two give the same code"):
        check(orders("sm_80"))


def test_a_word_without_a_lowering_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(work_tiles.ORDERS, RasterKind.groups)
    assert check(orders("sm_80")) == set(map(str, RasterKind)) - {"groups"}
    monkeypatch.delitem(work_tiles.LOOPS, SchedulerKind.even_split)
    edit = with_enum(tile.WorkTilesOp, "scheduler", SchedulerKind, "even_split")
    with pytest.raises(
        lt.PassError, match=r"scheduler even_split, which has no lowering; take persistent.*\[no-lowering\]"
    ):
        lowered("sm_80", edit)


@pytest.mark.parametrize("target", TARGETS)
def test_every_order_of_a_stage_has_code_of_its_own(target: str) -> None:
    spec = lt.GemmSpec(m=64, n=64, k=64, a="f32", b="f32", d="f32")

    def code(word: str) -> str:
        return lt.compile_gemm(spec, target=target, schedule=f"a.stage = {word}, a.copy = cp.async.4").ptx

    assert check(outcomes(StageOrder, code)) == set(map(str, StageOrder))
