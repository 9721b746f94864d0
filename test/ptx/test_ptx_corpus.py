"""The corpus of kernels of other compilers: its faults can be planted, and of a sample each verdict is the true one."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from lowtide.ptx.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT / "benchmarks") not in sys.path:
    sys.path.append(str(ROOT / "benchmarks"))
corpus: Any = importlib.import_module("ptx_corpus")

RESULTS = ROOT / "benchmarks" / "results"
CASES = list(corpus.cases())
FAST = (
    *("block_scan", "bulk_store", "constant_table", "cp_async_pipe", "device_calls", "dp4a_dot", "flag_in_cta"),
    "device_descriptors",
    "histogram_bins",
    *("last_block_sum", "local_table", "named_barriers", "pingpong", "spin_lock", "stencil_3d", "stmatrix_transpose"),
    *("barrier_pipeline", "bulk_add", "cg_sum", "cub_merge_sort", "cub_sort", "lane_copies", "lane_waits"),
    *("struct_param", "transpose", "vec_add", "warp_aggregate", "warp_reduce"),
    *("matmul_int8/wait-group-2", "matmul_fp16_s2/no-proxy-fence", "matmul_tma_128b/count-2"),
)
SAMPLE = [case for case in CASES if case.kernel in FAST or case.name in FAST]


@pytest.mark.parametrize("case", SAMPLE, ids=[case.name for case in SAMPLE])
def test_the_verdict_is_the_true_one(case: Any) -> None:
    each = corpus.outcome(case)
    assert not each.failed, f"{each.word}: {each.report}"


def test_each_fault_is_another_text_and_has_a_verdict_that_is_a_kind() -> None:
    right = {case.kernel: case.text() for case in CASES if not case.fault}
    for case in CASES:
        verdicts = [case.fields["verdict"], *case.fields.get("also", ())]
        assert set(verdicts) <= set(KINDS) and (verdicts == ["ok"]) == (not case.fault)
        assert not case.fault or case.text() != right[case.kernel], case.name
    assert len(right) >= 40 and len(CASES) - len(right) >= 40
    assert len({case.name for case in CASES}) == len(CASES)


def test_each_folder_of_kernels_is_in_the_corpus() -> None:
    folders = {path.parent.name for path in (ROOT / "test" / "ptx" / "kernels").glob("*/kernel.ptx")}
    assert folders == {case.kernel for case in CASES}


def test_an_edit_is_of_one_place() -> None:
    assert corpus.edited("a b a", "b", "c") == "a c a" and corpus.edited("a b a", "a", "c", 2) == "a b c"
    for old, nth in (("a", None), ("d", None), ("a", 3)):
        with pytest.raises(ValueError, match="occurs"):
            corpus.edited("a b a", old, "c", nth)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"edits": []}, "missed"),
        ({"verdict": "deadlock"}, "other verdict"),
        ({"names": ["block_scan.cu:1"]}, "other line"),
        ({"verdict": "deadlock", "also": ["race"]}, "found as good"),
    ],
)
def test_what_is_not_as_it_should_be_is_a_failure_unless_it_is_known(changed: Any, word: str, tmp_path: Path) -> None:
    (case,) = (case for case in CASES if case.name == "block_scan/no-barrier")
    for known in ({}, {"known": "for a reason"}):
        fields = {**case.fields, **changed, **known}
        each = corpus.outcome(corpus.Case(case.kernel, case.compiler, case.fault, fields, case.folder))
        assert (each.word, each.failed) == (word, word != "found as good" and not known)


def test_the_command_fails_on_a_false_alarm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (fault,) = (case for case in CASES if case.name == "block_scan/no-barrier")
    alarm = corpus.Case("block_scan", "nvcc", "", {"edits": fault.fields["edits"]}, fault.folder)
    for cases, status in (([fault], 0), ([fault, alarm], 1)):
        monkeypatch.setattr(corpus, "cases", lambda cases=cases: cases)
        assert corpus.main(["--only", "block_scan"]) == status
    assert "1 found, 1 false alarm" in capsys.readouterr().out


def test_the_tables_have_a_row_for_each_kernel_and_fault() -> None:
    kernels, faults = (corpus.record.load(RESULTS / f"ptx-corpus-{name}.json").rows for name in ("kernels", "faults"))
    assert [row[0] for row in kernels] == [case.kernel for case in CASES if not case.fault]
    assert [row[1] for row in faults] == [case.fields["what"] for case in CASES if case.fault]
