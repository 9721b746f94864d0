"""Training steps of models: what is said of figures that are none, and processes that measure nothing."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lowtide as lt
from lowtide.measurement.bench import model_steps
from lowtide.measurement.bench.model_steps import COLUMNS, LIBRARY, OWN, Steps, kind_of

ROOT = Path(__file__).resolve().parents[2]
NVJET = "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT"
TILES = "lowtide_gemm_bf16_bf16_f32_bf16_tn_128x256x64_s4_tma_wgmma_cooperative2"


def line(ours: float = 1.0, error: float = 0.01) -> dict[str, Any]:
    """A line of JSON: each time of Lowtide's is `ours` times that of Inductor's."""

    def steps(factor: float, products: list[list[Any]], wrong: float) -> dict[str, Any]:
        kernels = [[*products, ["triton_poi_fused_add_0", 2.0, 50.0]]] * 2
        times = {"step": [0.008 * factor, 0.009 * factor], "host": [0.007 * factor, 0.006 * factor]}
        return {**times, "kernels": kernels, "compile": [24.0 * factor, 20.0 * factor, 16.0 * factor], "error": wrong}

    found = {
        "inductor": steps(1.0, [[NVJET, 4.0, 400.0]], 0.01),
        "lowtide": steps(ours, [[TILES, 3.0, 300.0 * ours], [NVJET, 1.0, 100.0 * ours]], error),
    }
    return {"device": "NVIDIA X", "software": "torch 0", "found": found, "reports": {"lowtide": "2 of 3 are taken"}}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (TILES, OWN),
        ("lowtide_gemm_copy_bf16", OWN),
        (NVJET, LIBRARY),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", LIBRARY),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>", LIBRARY),
        ("void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::kernel>>", LIBRARY),
        ("void gemv2T_kernel_val<int, int, __nv_bfloat16, float>", LIBRARY),
        ("triton_tem_fused_mm_3", LIBRARY),
        ("triton_poi_fused_gelu_mm_3", None),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>", None),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)", None),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_128x128x64", None),
        ("Memset (Device)", None),
    ],
)
def test_kernels_of_products_are_known_by_name(name: str, kind: str | None) -> None:
    assert kind_of(name) == kind


def test_a_kernel_counts_from_when_the_one_before_it_has_ended() -> None:
    launches = [("a", 0.0, 10.0), ("b", 4.0, 16.0), ("a", 30.0, 38.0), ("c", 31.0, 37.0)]
    assert model_steps.kernels_of(launches, 2) == [("a", 1.0, 9.0), ("b", 0.5, 3.0), ("c", 0.5, 0.0)]


def test_a_row_has_both_times_and_ratios_of_the_same_round() -> None:
    found = {name: Steps.from_json(one) for name, one in line(0.5)["found"].items()}
    found["inductor"] = Steps([0.008, 0.018], [0.007, 0.006], found["inductor"].kernels, [20.0], 0.01)
    (row,) = model_steps.rows("bert", found)
    cells = dict(zip(COLUMNS, row, strict=True))
    assert cells["contender"] == "Lowtide, torch.compile"
    assert cells["step ms"] == "4.250 (4.000 … 4.500)" and cells["step ms of Inductor"] == "13.000 (8.000 … 18.000)"
    assert cells["sustained to Inductor"] == "3.000 (2.000 … 4.000)" and cells["host to Inductor"].startswith("2.000 ")
    assert cells["products µs"].startswith("200 ") and cells["products to Inductor"].startswith("2.000 ")
    assert cells["GPU µs"].startswith("250 ") and cells["GPU µs of Inductor"].startswith("450 ")
    assert cells["kernels"] == "3 and 1 of torch; Inductor 4"
    assert model_steps.slowest(found, 2).splitlines()[2:] == [
        f"| inductor | 400.0 | 4 | {NVJET} |",
        f"| lowtide | 150.0 | 3 | {TILES} |",
    ]


def test_what_was_not_profiled_has_no_ratio() -> None:
    steps = Steps([0.1], [0.1], [], [1.0], 0.0)
    (row,) = model_steps.rows("bert", {"inductor": steps, "lowtide-none": steps})
    cells = dict(zip(COLUMNS, row, strict=True))
    assert cells["contender"] == "Lowtide, lowtide-none"
    assert (cells["products µs"], cells["products to Inductor"]) == ("", "")
    counts = [text.partition(": ")[2] for text in model_steps.verdict([row]).splitlines()]
    assert counts == [f"{n} of {n} at least 1.00; below: none" for n in (1, 1, 0)]


@pytest.mark.parametrize("error", [0.05, float("nan")])
def test_a_contender_that_is_wrong_gets_no_row(error: float) -> None:
    found = {name: Steps.from_json(one) for name, one in line(1.0, error)["found"].items()}
    assert list(model_steps.rows("bert", found)) == []


@pytest.fixture(scope="module")
def script() -> ModuleType:
    if str(ROOT / "benchmarks") not in sys.path:
        sys.path.append(str(ROOT / "benchmarks"))
    return importlib.import_module("models")


Main = Callable[..., int]


@pytest.fixture
def race(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    """The command `race`, with the clock at the beginning of the run."""

    def run(*options: str) -> int:
        monkeypatch.setattr(script, "STARTED", script.time.monotonic())
        status: int = script.main(["race", "--journal", str(tmp_path / "run"), "--commit", "abc", *options])
        return status

    return run


def test_models_may_be_named_in_several_options(
    race: Main, script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(script, "measure", lambda name, arguments, seconds: asked.append(name) or line())
    assert race("--model", "bert", "t5", "--model", "phi") == 0
    assert sorted(asked) == ["bert", "phi", "t5"]


def test_first_compiles_are_those_of_processes_that_compile_for_one_contender(
    race: Main, script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[list[str], int]] = []

    def measured(name: str, contenders: list[str], options: dict[str, Any], *_: Any) -> Any:
        asked.append((contenders, options["rounds"]))
        whole = line()
        found = {one: {**whole["found"][one], "compile": float(len(asked))} for one in contenders}
        return {**whole, "found": found}

    monkeypatch.setattr(script, "_measured", measured)
    assert race("--model", "bert", "--rounds", "7", "--compiles", "2") == 0
    both = ["inductor", "lowtide"]
    assert asked == [(both, 7), *[([one], 0) for _ in range(2) for one in both]]
    (kept,) = [json.loads(text) for text in (tmp_path / "run" / "races.jsonl").read_text().splitlines()]
    assert [kept["found"][one]["compile"] for one in both] == [[2.0, 4.0], [3.0, 5.0]]
    assert race("--model", "t5", "--compiles", "0") == 0 and len(asked) == 6
    kept = json.loads((tmp_path / "run" / "races.jsonl").read_text().splitlines()[-1])
    assert [kept["found"][one]["compile"] for one in both] == [[6.0], [6.0]]


def test_models_are_measured_once_and_recorded_for_the_page(
    script: ModuleType, race: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def measure(name: str, arguments: Any, seconds: float) -> Any:
        asked.append(name)
        if name == "t5" and asked.count(name) == 1:
            raise lt.Error("exit status 1: no such model")
        return line(1.25 if name == "gemma" else 0.8, 9.0 if name == "phi" else 0.01)

    monkeypatch.setattr(script, "measure", measure)
    assert race("--minutes", "1") == 3 and asked == []  # a model may take longer
    assert race() == 2
    assert sorted(asked) == sorted(script.NINE) and asked != list(script.NINE)
    assert "t5: exit status 1: no such model" in capsys.readouterr().err
    assert race() == 0 and asked[9:] == ["t5"]
    of_run = ["--journal", str(tmp_path / "run")]
    assert script.main(["report", *of_run, "--kernels"]) == 0
    said = capsys.readouterr().out
    assert "7 of 8 at least 1.00; below: gemma 0.800" in said and "wrong: phi, lowtide" in said
    assert f"| inductor | 400.0 | 4 | {NVJET} |" in said and "2 of 3 are taken" in said
    assert script.main(["record", *of_run, "--results", str(tmp_path)]) == 0
    result = script.record.load(tmp_path / "models.json")
    assert (result.area, result.columns, result.commit) == ("models", COLUMNS, "abc")
    assert [row[0] for row in result.rows] == [name for name in script.NINE if name != "phi"]
    if str(ROOT / "docs") not in sys.path:
        sys.path.append(str(ROOT / "docs"))
    text = importlib.import_module("models_page").page(result)
    figures = "6.800 / 8.500, 1.250 | 5.200 / 6.500, 1.250 | 320 / 400, 1.250 | 370 / 450, 1.216 | 16.0 / 20.0"
    assert f"| bert | torch.compile | {figures} | 3 and 1 of torch; Inductor 4 |" in text
    assert "below: gemma 0.800" in text and "wrong: phi, lowtide" in text


def test_without_models_nothing_is_recorded(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["record", "--journal", str(tmp_path)]) == 2
    assert "has no models yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "minutes", "status", "said"),
    [
        ("open(sys.argv[3], 'w').write(LINE)", "9", 0, "sustained to Inductor: 1 of 1"),
        ("sys.exit('RuntimeError: no GPU')", "9", 2, "bert: exit status 1: RuntimeError: no GPU"),
        ("import time; time.sleep(60)", "0.02", 2, "bert was not done after 1 s; give --minutes more"),
    ],
)
def test_a_model_is_measured_in_a_process_that_ends_in_time(
    script: ModuleType,
    race: Main,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    body: str,
    minutes: str,
    status: int,
    said: str,
) -> None:
    fake = tmp_path / "fake.py"
    checked = "assert os.environ['LOWTIDE_CACHE'].startswith('/') and sys.argv[4] == '--with'"
    of_process = line()
    for one in of_process["found"].values():
        one["compile"] = 20.0
    fake.write_text(f"import os, sys\n{checked}\nLINE = {json.dumps(of_process)!r}\n{body}\n", encoding="utf-8")
    monkeypatch.setattr(script, "SCRIPT", fake)
    monkeypatch.setattr(script, "_FIRST", 0.0)
    monkeypatch.setattr(script, "_COMPILED", 0.0)
    assert race("--model", "bert", "--minutes", minutes) == status
    captured = capsys.readouterr()
    assert said in captured.err and ("nothing is measured yet" in captured.out) == bool(status)
    assert ((tmp_path / "run" / "bert.log").exists()) == ("sys.exit" in body)
