"""benchmarks/counters.py without a GPU: what it expects of explain, what it reads of ncu, and what it says."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import lowtide as lt
from lowtide.dialects.tile.schedule import Schedule
from lowtide.inspection.explain.explanation import explain_spec
from lowtide.measurement.counters.ncu import counters_of

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "counters.py"
SMALL = "grid.tile = [64, 64], k = 32, atoms = [2, 2, 1], stages = 2, a.swizzle = <0,3,3>, b.swizzle = <2,3,3>"
LDMATRIX = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum"
STORED = "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_st.sum"


@pytest.fixture(scope="module")
def counters() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_counters", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["benchmark_counters"] = module
    spec.loader.exec_module(module)
    return module


def explained(counters: ModuleType, target: str, schedule: str) -> dict[str, int]:
    """What explain expects of a whole launch of 128x128x128, by column."""
    spec = lt.GemmSpec(m=128, n=128, k=128, a="f16", b="f16", d="f16")
    report = explain_spec(spec, target, Schedule.parse(schedule)).to_json()
    every = [(quantity.column, quantity.explained(report)) for quantity in counters.QUANTITIES]
    return {column: value for column, value in every if value is not None}


def test_a_launch_is_every_run_of_every_op_on_every_tile(counters: ModuleType) -> None:
    """Four tiles of 64x64, four K steps of 32: worked out from the shapes."""
    found = explained(counters, "sm_80", SMALL)
    # A k-slice of an operand is 64 rows of 16 elements, 16 8x8 matrices, read by two warps each: a wavefront for each
    # of 32, or four where rows of 64 bytes conflict. Eight slices, and one ahead of the end.
    assert found["operands read"] == 4 * 9 * 32 * (4 + 1)
    assert found["of these conflicts"] == 4 * 9 * 32 * 3
    # Copies that run past the end of K touch no memory; rows of 64 bytes are two sectors.
    assert found["sectors loaded"] == 4 * 4 * 2 * 64 * 2
    assert found["sectors stored"] == 128 * 128 * 2 // 32


def test_wgmma_and_tma_are_counted_too(counters: ModuleType) -> None:
    schedule = "grid.tile = [64, 64], k = 64, stages = 2, roles = cooperative(1), epilogue.path = tma"
    found = explained(counters, "sm_90a", schedule)
    assert found["operands read"] == 4 * 2 * (64 * 64 + 64 * 64) * 2 // 128
    assert found["of these conflicts"] == 0
    assert found["sectors loaded"] == 4 * 2 * (64 + 64) * 64 * 2 // 32
    assert found["sectors stored"] == 128 * 128 * 2 // 32
    assert found["scratch written"] == 128 * 128 * 2 // 128


OUTPUT = f"""==PROF== Connected to process 7
launched one
launched two
"ID","Kernel Name","{LDMATRIX}","{STORED}"
"","","",""
"0","lowtide_gemm_f16_f16_f32_f16_tn","1,440","n/a"
"1","lowtide_gemm_f16_f16_f32_f16_tn","5760","1024"
"""


def test_the_counters_of_each_launch_are_read_from_ncus_table(counters: ModuleType) -> None:
    assert counters_of(OUTPUT) == [{LDMATRIX: 1440.0}, {LDMATRIX: 5760.0, STORED: 1024.0}]


def fake_ncu(folder: Path, output: str, status: int = 0) -> str:
    path = folder / "ncu"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{output}END\nexit {status}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_kernels_are_prepared_where_the_compiler_is_and_measured_without_it(
    counters: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [counters.Case(name, "sm_80", SMALL, m=128, n=128, k=128) for name in ("one", "two")]
    counters.prepare(tmp_path, cases)
    assert lt.runtime.load(tmp_path / "kernel-1").manifest["target"] == "sm_80"
    monkeypatch.setattr(lt, "compile_gemm", None)
    counters.main(["measure", str(tmp_path), "--ncu", fake_ncu(tmp_path, OUTPUT)])
    table = capsys.readouterr().out.splitlines()
    assert table[0].startswith("| kernel | operands read | of these conflicts |")
    assert [line.split(" | ")[:2] for line in table[2:]] == [["| one", "5760, counted 1440"], ["| two", "5760"]]
    assert [line.split(" | ")[-1] for line in table[2:]] == [" |", "1024 |"]
    assert json.loads((tmp_path / "counters.json").read_text())["two"][STORED] == 1024


def test_a_profiler_that_fails_ends_the_program_with_its_words(counters: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"(?s)profiled 0 of 1 launches: .*ERR_NVGPUCTRPERM"):
        counters.measure(tmp_path, fake_ncu(tmp_path, "launched one\n==ERROR== ERR_NVGPUCTRPERM\n", 1))


@pytest.mark.parametrize(
    "arguments, message",
    [(["measure"], "measure needs a FOLDER"), (["--ncu", "no-such-ncu"], "no-such-ncu was not found; install Nsight")],
)
def test_what_cannot_be_done_ends_with_a_message(arguments: list[str], message: str) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and message in done.stderr and "Traceback" not in done.stderr
