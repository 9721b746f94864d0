"""Origins: the ops that touch memory, multiply or wait come from ops that they replace or serve, at every level."""

import json
from pathlib import Path
from typing import Any

import pytest
from mlir import ir

import lowtide as lt
from lowtide.compiler.driver import lower
from lowtide.compiler.origins.origins import Origins
from lowtide.compiler.origins.pairs import COUNTED, shares
from lowtide.compiler.origins.ptx_lines import ptx_with_lines, rows_of_ptx
from lowtide.compiler.presets import LADDERS
from lowtide.compiler.problem_ir import problem_text
from lowtide.dialects._lowtide import ops_named
from lowtide.dialects.levels import Level
from lowtide.errors import IRError
from lowtide.passes.base import Pass
from lowtide.passes.nvvm.convert_sm_to_nvvm import ConvertSmToNvvm
from lowtide.passes.pipelined.pipeline_mainloop import PipelineMainloop
from lowtide.targets import Target, get

REQUIRED = 0.95
EMIT = "gpu-module-to-binary{format=isa}"

# They have 222 of the 237 pairs of an op and an origin of all presets; test/origins_of_presets.py measures all presets.
PRESETS = (
    "sm80-weights",
    "sm90-cluster-1x2",
    "sm90-f64-tma",
    "sm90-few-rows",
    "sm90-fp8-blocks",
    "sm90-pingpong",
    "sm90-scatter-k",
    "sm90-unaligned",
    "sm90-wave-sync",
)

# The ops that neither touch memory, nor multiply, nor wait.
OTHERS = (
    "tile.cluster_count tile.kernel tile.launch tile.next_work_tile tile.return tile.sm_count tile.splat tile.view",
    "tile.work_tiles tile.workspace tile.yield",
    "sm.alloc sm.extract sm.map sm.prefix sm.ring sm.ring_advance sm.ring_reuse sm.ring_slot sm.role_instance sm.roles",
    "sm.splat sm.stack sm.tensor_map sm.unpack_weights sm.ptx_keep_pair sm.ptx_mask_or sm.ptx_round",
    "nvvm.convert.f32x2.to.f8x2 nvvm.elect.sync nvvm.mapa nvvm.setmaxregister nvvm.shfl.sync",
    "memref.cast memref.dim memref.extract_aligned_pointer_as_index memref.extract_strided_metadata",
    "memref.reinterpret_cast",
)


def problem(preset: str) -> str:
    found = LADDERS[preset]
    return problem_text(found.spec(), get(found.target), found.schedule)


def origins_of(preset: str, until: Level = Level.LLVM) -> Origins:
    found = lower(problem(preset), until=until, origins=True).origins
    assert found is not None
    return found


@pytest.fixture(scope="module")
def wgmma(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Origins]:
    """A kernel with roles, and its dumps."""
    folder = tmp_path_factory.mktemp("dump")
    found = lower(problem("sm90-cluster-2x1"), dump_dir=folder).origins
    assert found is not None
    return folder, found


@pytest.mark.parametrize("preset", PRESETS)
def test_ops_that_touch_memory_multiply_or_wait_come_from_ops_that_they_replace_or_serve(preset: str) -> None:
    origins = origins_of(preset)
    found = shares(origins)
    assert list(found) == [level for level in Level if level < Level.PTX]
    for level, share in found.items():
        assert share.allowed >= REQUIRED, (level, [str(op) for op in share.others])
    met = {row.op for step in origins.steps for row in step.rows}
    unknown = (
        name
        for name in met - COUNTED - {*" ".join(OTHERS).split()}
        if name.startswith(("tile.", "sm.", "nvvm.", "memref."))
    )
    assert [name for name in unknown if not name.startswith("nvvm.read.")] == []


def with_reductions(acc: Any, c: lt.Full) -> dict[str, Any]:
    return {"d": acc + c, "rows": lt.logsumexp(acc, dim=1), "columns": lt.amax(acc, dim=0)}


@pytest.mark.parametrize(
    "spec",
    [
        lt.GemmSpec(groups=8, n=512, k=512, a="bf16", b="bf16", d="bf16", a_rows=True, d_rows=True),
        lt.GemmSpec(m=512, n=512, k=512, a="bf16", b="bf16", d="bf16", epilogue=with_reductions),
    ],
    ids=["groups-of-rows-at-an-index", "reductions"],
)
def test_problems_that_no_preset_has_reach_the_share_too(spec: lt.GemmSpec) -> None:
    origins = lower(problem_text(spec, get("sm_90a")), until="llvm", origins=True).origins
    assert origins is not None
    assert min(share.allowed for share in shares(origins).values()) >= REQUIRED


@pytest.mark.parametrize("guilty", [PipelineMainloop, ConvertSmToNvvm])
def test_a_pass_that_gives_the_location_of_the_loop_is_found(
    guilty: type[Pass], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = guilty.run

    def faulty(self: Pass, module: ir.Module, target: Target) -> None:
        run(self, module, target)
        for loop in ops_named(module.operation, "scf.for"):
            for op in loop.regions[0].blocks[0].operations:
                op.operation.location = loop.location

    preset, level = "sm90-cluster-2x1", guilty.gives
    assert level is not None
    assert shares(origins_of(preset, level))[level].allowed == 1
    monkeypatch.setattr(guilty, "run", faulty)
    share = shares(origins_of(preset, level))[level]
    assert share.allowed < REQUIRED
    assert any(op.name in ("sm.consumer_wait", "nvvm.wgmma.mma_async") for op in share.others)


def test_recording_changes_no_code_and_no_dump(wgmma: tuple[Path, Origins]) -> None:
    plain = lower(problem("sm90-cluster-2x1"))
    recorded = lower(problem("sm90-cluster-2x1"), origins=True)
    assert recorded.levels == plain.levels and recorded.origins is not None
    folder, origins = wgmma
    for step in origins.steps[:-1]:
        assert (folder / f"{step.place}.mlir").read_text() == step.text
    assert (folder / "09-ptx" / "kernel.ptx").read_text() == origins.steps[-1].text == plain.ptx
    assert origins.step("nvvm").text == plain.levels["nvvm"]


def test_instructions_of_the_ptx_lead_to_ops_of_level_llvm(wgmma: tuple[Path, Origins]) -> None:
    _, origins = wgmma
    expected = {
        "wgmma.mma_async": "sm.wgmma",
        "cp.async.bulk.tensor": "sm.tma_load sm.tma_store",
        "mbarrier.try_wait": "sm.mbarrier_wait",
        "stmatrix": "sm.store_shared",
    }
    for start, names in expected.items():
        found = [op for op in origins.ops("ptx") if op.name.startswith(start)]
        assert found and all(start in op.text for op in found)
        assert {origin.name for op in found for origin in origins.of(op, "epilogue")} == set(names.split())
    assert shares(origins)[Level.PTX].allowed == 1


def test_the_ptx_with_lines_is_the_one_that_ships_but_for_what_names_lines() -> None:
    compiled = lower(problem("sm90-cluster-2x1"))
    assert compiled.ptx is not None
    text = ptx_with_lines(compiled.levels["llvm"], EMIT)
    assert ".loc" in text and ".loc" not in compiled.ptx and ", debug" not in text
    lines = frozenset(range(1, 10_000))
    rows = rows_of_ptx(compiled.ptx, text, lines)
    assert len(rows) > 500 and sum(map(len, (row.origins for row in rows))) > 0.8 * len(rows)
    assert rows_of_ptx(compiled.ptx.replace("stmatrix", "stmatrix2", 1), text, lines) == ()


def test_an_instruction_whose_operands_are_on_the_next_lines_has_its_origins_too() -> None:
    ptx = "\tmma.sync.aligned\n\t{%f1},\n\t{%r1};\n\tadd.s32 \t%r2, %r1, 1;\n\tret;"
    with_lines = "\t.loc 1 7 3\n\tmma.sync.aligned\n\t{%f1},\n\t{%r1};\n\t.loc 1 9 3\n\tadd.s32 \t%r2, %r1, 1;\n\tret;"
    assert [(row.line, row.op, row.origins) for row in rows_of_ptx(ptx, with_lines, frozenset((7, 9)))] == [
        (1, "mma.sync.aligned", (7,)),
        (4, "add.s32", (9,)),
        (5, "ret", (9,)),
    ]


def test_an_op_leads_to_the_ops_it_comes_from_and_back(wgmma: tuple[Path, Origins]) -> None:
    _, origins = wgmma
    load = next(op for op in origins.ops("nvvm") if op.name.startswith("nvvm.cp.async.bulk.tensor"))
    assert origins.op("nvvm", load.line) == load == origins.ops("nvvm")[load.number]
    assert load.name in load.text
    names = [[op.name for op in origins.of(load, str(level))] for level in reversed(Level) if level < Level.NVVM]
    expected = ["sm.tma_load", "sm.tma_load", "sm.copy_async", "sm.copy", "tile.view", "tile.gemm"]
    assert names == [[name] for name in expected]
    for level in Level:
        if level < Level.NVVM:
            (origin,) = origins.of(load, str(level))
            assert load in origins.became(origin, "nvvm")
    (gemm,) = (op for op in origins.ops("01-problem/00-input") if op.name == "tile.gemm")
    assert origins.of(gemm) == ()
    assert {op.name for op in origins.became(gemm, "cta")} >= {"tile.mma", "tile.store", "tile.work_tiles"}


def test_functions_loops_and_roles_are_origins_of_each_other_only(wgmma: tuple[Path, Origins]) -> None:
    _, origins = wgmma
    functions = {"builtin.module", "func.func", "tile.kernel", "gpu.func", "llvm.func"}
    holders = {*functions, "sm.roles", "tile.work_tiles", "scf.for"}
    met = set()
    for before, step in zip(origins.steps, origins.steps[1:], strict=False):
        names = {row.line: row.op for row in before.rows}
        for row in step.rows:
            met |= {names[origin] for origin in row.origins} & holders
            assert row.op in {*holders, "gpu.module"} or holders.isdisjoint(names[origin] for origin in row.origins)
    assert met >= {"tile.kernel", "scf.for"}


def test_origins_are_read_back_from_a_dump_folder(wgmma: tuple[Path, Origins]) -> None:
    folder, origins = wgmma
    assert lt.load_origins(folder) == origins


def test_a_compilation_that_begins_at_a_dump_has_its_own_origins(tmp_path: Path) -> None:
    text = problem("sm90-cluster-2x1")
    lower(text, until="pipelined", dump_dir=tmp_path)
    made = lower(tmp_path / "03-smem" / "02-assign-smem-layouts.mlir", until="atoms", dump_dir=tmp_path).origins
    assert made is not None and made.steps[0].place == "03-smem/00-input"
    assert lt.load_origins(tmp_path) == made
    (copy, *_) = (op for op in made.ops("pipelined") if op.name == "sm.copy_async")
    assert {op.name for op in made.of(copy, "03-smem/00-input")} == {"sm.copy"}


def test_a_kernel_without_a_dump_folder_has_the_same_origins() -> None:
    spec = lt.GemmSpec(m=64, n=64, k=64, a="bf16", b="bf16", d="bf16")
    kernel = lt.compile_gemm(spec, "sm_80", "grid.tile = [64, 64], k = 32, stages = 2")
    assert kernel.origins.step("llvm").text == kernel.levels["llvm"]
    assert kernel.origins.steps[0].place == "01-problem/00-input"


def test_questions_without_an_answer_say_what_there_is(wgmma: tuple[Path, Origins]) -> None:
    _, origins = wgmma
    op = origins.ops("smem")[-1]
    with pytest.raises(IRError, match=r"no step is named 'nvm'; did you mean 'nvvm'\? \[step-of-origins\]"):
        origins.step("nvm")
    with pytest.raises(IRError, match=r"no op begins in line 0 of 03-smem/.*; one does in line \d+ \[op-line\]"):
        origins.op("smem", 0)
    with pytest.raises(IRError, match=r"07-nvvm/.* is not before 03-smem/.* \[order-of-steps\]"):
        origins.of(op, "nvvm")
    with pytest.raises(IRError, match=r"02-cta/.* is not after 03-smem/.* \[order-of-steps\]"):
        origins.became(op, "cta")


def test_damaged_origins_and_edited_dumps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IRError, match=r"there are no origins in .*\[no-origins\]"):
        lt.load_origins(tmp_path)
    lower(problem("sm80-direct"), until="cta", dump_dir=tmp_path)
    dump, file = tmp_path / "02-cta" / "04-simplify.mlir", tmp_path / "origins" / "02-cta" / "04-simplify.json"
    text, rows = dump.read_text(), file.read_text()
    dump.write_text(text.replace("tile.mma", "\ntile.mma"))
    with pytest.raises(IRError, match=r"04-simplify.mlir was edited after .*\[origins-of-text\]"):
        lt.load_origins(tmp_path)
    dump.write_text(text)
    for damage in ("", "[]", json.dumps({**json.loads(rows), "ops": [["a"]]}), rows.replace("03-", "05-", 1)):
        file.write_text(damage)
        with pytest.raises(IRError, match=r"04-simplify.json does not have origins .*\[origins-file\]"):
            lt.load_origins(tmp_path)
    file.write_text(rows)
    assert lt.load_origins(tmp_path).step("cta").text == text
