"""`lt.check`: right kernels pass on all paths, a fault planted in a pass is found and that very step named."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlir import ir
from mlir.dialects import arith

import lowtide as lt
from lowtide import targets
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import lower
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.problem_ir import problem_text
from lowtide.dialects import tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import RasterKind, SchedulerKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.interpreter import Trace, interpret
from lowtide.passes.atoms.bind_ring import BindRing
from lowtide.passes.base import Pass, walk
from lowtide.passes.cta.launch_preparations import LaunchPreparations
from lowtide.passes.cta.tile_to_ctas import TileToCtas
from lowtide.passes.nvvm.convert_sm_to_nvvm import ConvertSmToNvvm
from lowtide.passes.nvvm.work import work_tiles
from lowtide.passes.smem.assign_smem_layouts import AssignSmemLayouts
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target
from lowtide.verification.checking.check import check
from lowtide.verification.checking.check_result import CheckResult
from lowtide.verification.checking.cover import Cover, as_asked, cover_of
from lowtide.verification.checking.interpretation import Batch
from lowtide.verification.checking.subjects import Subject, of_dump, of_kernel
from lowtide.verification.checking.trials import Finding, Source, Trial, outcomes
from lowtide.verification.checking.variants import variants_of
from lowtide.verification.checking.workload import work_of

# Not packed: otherwise check runs all levels for each place where matrices may lie.
TWO_STAGES = "grid.tile = [32, 32], k = 16, atoms = [1, 2, 1], stages = 2, pack = none"
SMALL = f"{TWO_STAGES}, order = grouped(2)"
OPEN = lt.GemmSpec(a="bf16", b="bf16", d="bf16")

UNSIGNED_LE = 7  # of arith.cmpi

Plant = Callable[[ir.Operation], bool]
"""Makes an op wrong and says so; False for an op that it leaves alone."""


def compiled(spec: lt.GemmSpec = OPEN, schedule: str = SMALL, dump: Path | None = None) -> CompiledKernel:
    return lt.compile_gemm(spec, "sm_80", schedule, dump)


def planted(monkeypatch: pytest.MonkeyPatch, kind: type[Pass], plant: Plant) -> None:
    """The pass also makes the first op wrong that `plant` takes."""
    right = kind.run

    def run(self: Pass, module: ir.Module, target: Target) -> None:
        right(self, module, target)
        ops: list[ir.Operation] = []
        module.operation.walk(lambda op: (ops.append(op), ir.WalkResult.ADVANCE)[1])
        assert any(plant(op) for op in ops)

    monkeypatch.setattr(kind, "run", run)


def checked(tmp_path: Path, spec: lt.GemmSpec = OPEN, schedule: str = SMALL) -> CheckResult:
    return lt.check(compiled(spec, schedule), jobs=1, dump_ir=tmp_path)


def test_a_right_kernel_passes_on_all_paths() -> None:
    result = lt.check(compiled(schedule=SMALL.replace(", pack = none", "")), jobs=1)
    assert result.ok, result
    (verified,) = result.verified
    assert [row for row in verified.conditions if row.shape is None] == []
    # K has a step at least, the ring's first copies too: nothing else is left.
    assert {side for _, side, _ in verified.branches.missing} <= {"no iteration"}
    for below in (verified.branches_of_llvm, verified.branches_of_ptx):
        assert below.possible > 0 and below.taken >= 0.9 * below.possible, below
    assert result.orders == "rule"
    assert {outcome.trial.domain for outcome in result.outcomes} == {"field", "exact", "float"}
    assert str(result).splitlines()[-1].startswith("  ")
    assert json.loads(json.dumps(result.as_json()))["ok"] is True


def gelu_of(acc, c: lt.Full, scale: lt.Scalar):
    return lt.gelu(scale * acc) + c


def residual(acc, c: lt.Full, scale: lt.Scalar):
    return scale * acc + 0.5 * c


@pytest.mark.parametrize(
    ("layout", "epilogue", "domains", "degree"),
    [("nn", gelu_of, {"float"}, None), ("tt", residual, {"field", "float"}, 3), ("nt", lt.relu, {"exact", "float"}, 2)],
)
def test_numbers_are_of_a_domain_that_the_epilogue_has(
    layout: str, epilogue: Callable, domains: set[str], degree: int | None
) -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", layout=layout, epilogue=epilogue)
    result = lt.check(compiled(spec), jobs=1, budget=3.0)
    assert result.ok, result.verdict
    assert {outcome.trial.domain for outcome in result.outcomes} == domains
    assert any(outcome.trial.extents[2] == 0 for outcome in result.outcomes)
    assert degree in (None, result.degree)


def test_a_dropped_barrier_is_the_fault_of_the_pass_that_dropped_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def drop(op: ir.Operation) -> bool:
        if op.name != "sm.barrier":
            return False
        op.erase()
        return True

    planted(monkeypatch, BindRing, drop)
    guilty = checked(tmp_path).guilty
    assert guilty is not None and guilty.before is not None
    assert (guilty.level, guilty.step) == ("atoms", "bind-ring")
    assert guilty.before.name.endswith("double-buffer-fragments.mlir")
    assert guilty.outcome.finding is Finding.broken
    assert "sm.ldmatrix" in guilty.op
    assert "sm.barrier" in guilty.before.read_text() or "consumer_wait" in guilty.before.read_text()


@pytest.mark.parametrize(
    ("table", "meant", "made"),
    [
        ("ORDERS", RasterKind.hilbert, RasterKind.row),
        ("LOOPS", SchedulerKind.even_split, SchedulerKind.persistent),
    ],
)
def test_another_order_of_work_tiles_is_the_fault_of_the_pass_that_made_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: str, meant: Any, made: Any
) -> None:
    """D is right: only the order is not."""
    monkeypatch.setitem(getattr(work_tiles, table), meant, getattr(work_tiles, table)[made])
    field = "order" if isinstance(meant, RasterKind) else "scheduler"
    schedule = f"{TWO_STAGES}, {field} = {meant}"
    result = lt.check(compiled(schedule=schedule), jobs=1, budget=3, dump_ir=tmp_path)
    guilty = result.guilty
    assert guilty is not None and not result.ok
    assert (guilty.level, guilty.step) == ("nvvm", "convert-sm-to-nvvm")
    assert guilty.outcome.finding is Finding.wrong
    assert re.search(r"the order of work tiles is not that of level cta: CTAs? .* stores? ", str(guilty))


def test_the_order_of_work_tiles_is_compared_at_each_level_below_cta() -> None:
    compared = {outcome.level for outcome in lt.check(compiled(), jobs=1, budget=2).outcomes if outcome.in_order}
    assert compared == {str(level) for level in Level if level is not Level.PROBLEM}


@pytest.mark.parametrize(
    ("batch", "target", "schedule"),
    [
        (lt.UNBATCHED, "sm_80", f"{TWO_STAGES}, k_division = stream_k, scheduler = persistent"),
        (lt.UNBATCHED, "sm_90a", "grid.tile = [64, 32], k = 32, stages = 2, operands = swapped, pack = none"),
        (2, "sm_80", f"{TWO_STAGES}, order = column"),
    ],
)
def test_a_right_order_is_no_fault(batch: Any, target: str, schedule: str) -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", batch=batch)
    subject = of_kernel(lt.compile_gemm(spec, target, schedule))
    sources = [Source(level, subject.levels[level]) for level in ("epilogue", "nvvm")]
    several = Batch(2) if batch == 2 else None
    for extents in ((33, 72, 65), (97, 65, 16)):
        trial = Trial(extents, domain="exact", batch=several)
        for outcome in outcomes(subject.problem, sources, trial, ordering=subject.ordering):
            assert outcome.finding is Finding.right and outcome.in_order, outcome


def test_a_wrong_layout_is_the_fault_of_the_pass_that_chose_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A shared buffer whose rows overlap."""

    def squeeze(op: ir.Operation) -> bool:
        if op.name != "sm.alloc":
            return False
        text = str(op.results[0].type)
        changed = re.sub(r"\(32,16\):\(16,1\)", "(32,16):(8,1)", text)
        if changed == text:
            return False
        op.results[0].set_type(ir.Type.parse(changed))
        return True

    planted(monkeypatch, AssignSmemLayouts, squeeze)
    guilty = checked(tmp_path).guilty
    assert guilty is not None
    assert (guilty.level, guilty.step) == ("smem", "assign-smem-layouts")


def test_a_fault_of_ragged_shapes_alone_is_found_by_the_computed_shapes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Stores that are one column too wide: whole tiles show nothing."""

    def widen(op: ir.Operation) -> bool:
        if op.name != "scf.if" or op.operands[0].owner.name != "arith.andi":
            return False
        in_columns = op.operands[0].owner.operands[1].owner
        with in_columns.context:
            in_columns.attributes["predicate"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), UNSIGNED_LE)
        return True

    planted(monkeypatch, ConvertSmToNvvm, widen)
    guilty = checked(tmp_path).guilty
    assert guilty is not None
    assert (guilty.level, guilty.step) == ("nvvm", "convert-sm-to-nvvm")
    m, n, _ = guilty.outcome.trial.extents
    assert m % 32 or n % 32


def test_a_fault_of_one_run_of_rows_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of 64 rows 16 are stored at once. Only where M ends in the second of these runs does its guard show."""

    def widen(op: ir.Operation) -> bool:
        if op.name != "scf.if" or op.operands[0].owner.name != "arith.andi":
            return False
        in_rows = op.operands[0].owner.operands[0].owner
        added = str(in_rows.operands[0].owner)
        if "arith.addi" not in added or "%c16_i32" not in added:
            return False
        with in_rows.context:
            in_rows.attributes["predicate"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), UNSIGNED_LE)
        return True

    planted(monkeypatch, ConvertSmToNvvm, widen)
    guilty = checked(tmp_path, schedule=SMALL.replace("[32, 32]", "[64, 32]")).guilty
    assert guilty is not None
    assert (guilty.level, guilty.step) == ("nvvm", "convert-sm-to-nvvm")
    assert 16 < guilty.outcome.trial.extents[0] % 64 < 32


def test_a_level_that_came_in_wrong_is_said_to_be(tmp_path: Path) -> None:
    dump, files = tmp_path / "dump", tmp_path / "files"
    compiled(dump=dump)
    (edited,) = dump.glob("05-atoms/*-split-k-slices.mlir")
    last = max(dump.glob("05-atoms/*.mlir"))
    for path in (edited, last):
        path.write_text(path.read_text().replace("0.000000e+00", "1.000000e+00", 1))
    result = check(of_dump(dump), jobs=1, dump_ir=files)
    assert result.guilty is not None
    assert result.guilty.step == edited.stem[3:]
    element = result.guilty.outcome.element
    assert element is not None
    assert element.got != element.expected
    assert str(edited) in result.guilty.command
    assert not result.ok
    assert result.as_json()["guilty"]["after"] == str(edited) and result.as_json()["guilty"]["edited"]
    assert result.verdict.startswith(f"WRONG from 05-atoms/{edited.stem} on. This file was edited after the compiler")
    assert "edited     this file was edited" in str(result.guilty)
    for path in (dump / "origins").glob("*/*.json"):  # nothing says what the compiler wrote
        path.unlink()
    accused = check(of_dump(dump), jobs=1, dump_ir=files)
    assert accused.verdict == f"WRONG at level atoms, by step {edited.stem[3:]}"


def test_a_kernel_of_fixed_extents_is_checked_by_the_same_schedule_for_others() -> None:
    large = lt.GemmSpec(m=4096, n=4000, k=8200, a="bf16", b="bf16", d="bf16")
    variants = variants_of(of_kernel(compiled(large)))
    assert [variant.name for variant in variants] == ["any extents", "96 x 96 x 56"]
    assert "compiled for 4096 x 4000 x 8200" in variants[0].notes[0]
    unrolled = "grid.tile = [32, 32], k = 16, atoms = [1, 2, 1], stages = 2, unroll = full"
    known = lt.GemmSpec(k=40, a="bf16", b="bf16", d="bf16")
    names = [variant.name for variant in variants_of(of_kernel(compiled(known, unrolled)))]
    assert names == ["any x any x 40", "any x any x 8", "any x any x 24"]


def biased(acc, bias: lt.PerColumn, scale: lt.Scalar):
    return scale * acc + bias


def test_a_batch_is_checked_with_one_two_and_three_matrices(tmp_path: Path) -> None:
    spec = lt.GemmSpec(batch=None, a="bf16", b="bf16", d="bf16", epilogue=biased)
    result = checked(tmp_path, spec, SMALL + ", scheduler = persistent")
    assert result.ok, result
    (verified,) = result.verified
    rows = {row.text: row.shape for row in verified.conditions if row.subject == "batch"}
    assert {"1 matrix", "2 matrices", "3 matrices", "a CTA with tiles of two matrices", "A is shared"} <= set(rows)
    assert None not in rows.values()
    shared = {outcome.trial.batch.shared for outcome in result.outcomes if outcome.trial.batch is not None}
    assert shared == {(), ("b", "bias"), ("a",)}
    assert "any number of any extents" in str(result)


@pytest.mark.parametrize(
    ("store", "operand", "index"),
    [(tile.ViewOp, 0, 1), (tile.StoreOp, 1, 2)],
    ids=["one B for all", "one D for all"],
)
def test_a_matrix_that_is_not_the_own_one_is_the_fault_of_the_pass_that_chose_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: type, operand: int, index: int
) -> None:
    """The number of the matrix is 0, of a window of B, or of a store."""

    def plant(op: ir.Operation) -> bool:
        if op.name != store.OPERATION_NAME or "B" not in str(op.operands[operand]) + "B" * operand:
            return False
        with ir.InsertionPoint(op), op.location:
            op.operands[index] = arith.constant(ir.IndexType.get(), 0)
        return True

    planted(monkeypatch, TileToCtas, plant)
    spec = lt.GemmSpec(batch=None, a="bf16", b="bf16", d="bf16")
    guilty = checked(tmp_path, spec).guilty
    assert guilty is not None and guilty.outcome.trial.batch is not None
    assert (guilty.level, guilty.step) == ("cta", "tile-to-ctas")
    assert guilty.outcome.trial.batch.matrices > 1
    assert f"--batch {guilty.outcome.trial.batch.matrices}" in guilty.command


def test_a_matrix_that_is_copied_too_rarely_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The host function of a kernel that packs asks whether the row stride of A is a multiple of 8 bytes, not 16."""
    seen: list[ir.Operation] = []

    def halve(op: ir.Operation) -> bool:
        if op.name != "arith.remui" or op.operands[1].owner.name != "arith.constant":
            return False
        seen.append(op)
        if len(seen) != 2:  # the first is of the base
            return False
        with ir.InsertionPoint(op), op.location:
            op.operands[1] = arith.constant(ir.IndexType.get(), 8)
        return True

    planted(monkeypatch, LaunchPreparations, halve)
    result = checked(tmp_path, OPEN, SMALL.replace("pack = none", "pack = rows"))
    assert result.guilty is not None
    strides, bases, _ = result.guilty.outcome.trial.place.of_matrices
    assert (strides[0], bases[0]) == (8, 16)
    assert "--aligned '8,16" in result.guilty.command


def test_d_by_columns_is_checked_with_the_shapes_of_the_swapped_product() -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", layout="tt", d_order="column", epilogue=residual)
    result = lt.check(compiled(spec), jobs=1, budget=3.0)
    assert result.ok, result
    assert {outcome.trial.extents[2] for outcome in result.outcomes} > {0}


def test_a_kernel_that_writes_what_is_not_its_own_is_found() -> None:
    text = compiled().levels["cta"]
    wrong = re.sub(r"(tile.store %\w+ into )%D", r"\1%A", text)
    assert wrong != text
    inputs = {name: np.ones((32, 32), np.int64) for name in ("a", "b", "d")}
    with pytest.raises(lt.InterpreterError, match=r"a\[0, 0\] has changed.*\[kernel-wrote\]"):
        interpret(wrong, inputs, domain="exact")


@pytest.mark.parametrize(
    ("schedule", "sms"),
    [
        (SMALL, 2),
        ("grid.tile = [32, 32], k = 64, atoms = [1, 2, 1], stages = 9, scheduler = persistent", 2),
        ("grid.tile = [32, 32], k = 32, atoms = [1, 2, 1], stages = 3, k_division = split(3)", 3),
        ("grid.tile = [32, 32], k = 64, stages = 9, scheduler = persistent, k_division = hybrid", 2),
    ],
)
def test_the_work_that_is_computed_is_the_work_that_is_done(schedule: str, sms: int) -> None:
    kernel = compiled(schedule=schedule)
    facts, tile = of_kernel(kernel).facts, kernel.schedule.tile_mnk
    work = work_of(kernel.schedule, facts, kernel.target, (2, 3, 7), sms)
    shapes = {"a": (2 * tile[0], 7 * tile[2]), "b": (3 * tile[1], 7 * tile[2])}
    trace = Trace()
    interpret(
        kernel.levels["cta"],
        {name: np.zeros(shape, np.int64) for name, shape in shapes.items()},
        sms=sms,
        domain="exact",
        trace=trace,
    )
    done = {cta: [place[:2] for place in tiles] for cta, tiles in trace.tiles().items()}
    # The trace has the tiles that a CTA stores: of the parts of a tile, the first.
    expected = {
        cta: [(item.place[0] * tile[0], item.place[1] * tile[1]) for item in items if item.part == 0]
        for cta, items in enumerate(work.items)
    }
    assert done == {cta: places for cta, places in expected.items() if places}


def _cost(extents: tuple[int, int, int], matrices: int) -> float:
    return 1.0 + matrices * math.prod(extents)


def _cover(spec: lt.GemmSpec, target: str, schedule: lt.Schedule) -> Cover:
    """The shapes of a kernel, as its user knows them, without a run."""
    settled = targets.get(target)
    asked = problem_text(spec, settled, schedule)
    text = lower(asked, until="problem").levels["problem"]
    with make_context() as context:
        carried = Schedule.carried_by(parse_text(text, context, "<problem>"))
    assert carried is not None
    subject = Subject({}, asked, carried, settled)
    found = cover_of(subject.schedule, subject.facts, settled, _cost, 1e12)
    return as_asked(found, subject.asked, is_swapped=subject.is_swapped)


def test_k_of_pieces_ends_in_each_place_within_a_step_and_within_a_unit() -> None:
    spec = lt.GemmSpec(a="f32", b="f32", d="f32", precision="tf32x3")
    rows = _cover(spec, "sm_90a", lt.presets["sm90-f32-tf32x3"]).rows
    assert [row for row in rows if row.shape is None] == []
    assert {row.text for row in rows if row.subject == "edge of K"} == {
        "ends with a whole tile",
        "ends inside an mma of depth 8",
    }
    assert {row.shape.extents[2] % 4 for row in rows if row.shape is not None} == {0, 1, 2, 3}


def test_conditions_of_exchanged_operands_are_said_of_the_matrices_as_given() -> None:
    """The kernel computes Dᵀ in tiles of 64 rows, which are columns of D."""
    cover = _cover(OPEN, "sm_80", lt.presets["sm80-few-rows"])
    near = [row for row in cover.rows if row.text.startswith("ends 1 before")]
    ends = {row.subject: row.shape.extents for row in near if row.shape is not None}
    assert ends["edge of N"][1] % 64 == 63 and ends["edge of M"][0] % 16 == 15, ends
    stored = [row for row in cover.rows if "stored at once" in row.text]
    assert {row.subject for row in stored} == {"edge of N"} and all("in columns" in row.text for row in stored)


@pytest.mark.parametrize(
    ("target", "preset", "subjects"),
    [
        ("sm_80", "sm80-filled-ring", {"ring": 8}),
        ("sm_80", "sm80-split-k", {"k_division split(4)": 3}),
        ("sm_90a", "sm90-cluster-2x1", {"cluster": 2, "ring": 6}),
        ("sm_90a", "sm90-split-tail", {"tail": 3}),
        ("sm_90a", "sm90-pingpong", {"turns": 3}),
        ("sm_90a", "sm90-hybrid-k", {"k_division hybrid": 6}),
        ("sm_90a", "sm90-3d-maps", {"order groups(16, 8)": 8}),
    ],
)
def test_every_condition_of_a_schedule_is_met_by_some_shape(target: str, preset: str, subjects: dict[str, int]) -> None:
    """Without a run: the schedule is chosen, and shapes are computed."""
    settled = targets.get(target)
    text = lower(problem_text(OPEN, settled, lt.presets[preset]), until="problem").levels["problem"]
    with make_context() as context:
        module = parse_text(text, context, "<problem>")
        schedule = Schedule.carried_by(module)
        (gemm,) = walk(module, tile.GemmOp)
        problem = Problem.of(gemm)
    assert schedule is not None
    rows = cover_of(schedule, problem, settled, _cost, 1e12).rows
    assert [row for row in rows if row.shape is None] == []
    counts = Counter(row.subject for row in rows)
    assert {subject: counts[subject] for subject in subjects} == subjects
    if preset == "sm90-3d-maps":  # panels must be whole
        assert all(row.shape.extents[2] % 64 == 0 for row in rows if row.shape is not None)


def test_a_process_that_died_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that cannot import a script without `if __name__ == "__main__":`."""

    class Dead(Executor):
        def __init__(self, processes: int, mp_context: Any) -> None:
            pass

        def submit(self, *given: Any) -> Any:
            future: Future[Any] = Future()
            future.set_exception(BrokenProcessPool())
            return future

    monkeypatch.setattr("lowtide.verification.checking.check.ProcessPoolExecutor", Dead)
    with pytest.raises(lt.Error, match=r"call lt.check under `if __name__ == .*\[check-process-died\]"):
        lt.check(compiled(), jobs=2, budget=2)
