"""`lowtide ptx`: recorded launches of kernels of Triton and CUDA run as on the GPU, and planted faults are reported."""

import io
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scaling import call

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a kernel with its launch and arrays."""
    return Path(shutil.copytree(KERNELS / "block_reduce", tmp_path / "kernel"))


def changed(folder: Path, change: Any) -> None:
    """Apply a function to the description of the launch."""
    launch = json.loads((folder / "launch.json").read_text())
    change(launch)
    (folder / "launch.json").write_text(json.dumps(launch))


# Some of the corpus, which test_ptx_corpus.py samples.
RECORDED = (
    *("block_reduce", "cp_async_pipe", "matmul_fp16_s1", "matmul_int8", "message_passing", "reverse", "tiled_matmul"),
    *("tma_bulk_1d", "vec_add_unaligned"),
)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_launch_gives_the_arrays_of_the_gpu(name: str) -> None:
    done = call("check", KERNELS / name / "kernel.ptx")
    assert (done.exit_code, "no rule is broken; " in done.output) == (0, True), done.output
    assert " as expected" in done.output and "for every order of" in done.output


RACES = {
    "block_reduce": ["ld.shared.u32", "st.shared.u32"],
    "tiled_matmul": ["st.shared.f32", "ld.shared.f32"],
    "message_passing": ["ld.global.u32", "st.global.u32"],  # by two CTAs; there is no fence before the flag is set
    "reverse": ["ld.shared.u32", "st.shared.u32"],
}


@pytest.mark.parametrize("name", RACES)
def test_a_planted_race_is_found_with_both_accesses(name: str) -> None:
    """A barrier or a fence is missing in fault1.ptx, which takes the launch of the right kernel beside it."""
    done = call("check", KERNELS / name / "fault1.ptx", "--json")
    report = json.loads(done.stdout)
    assert (done.exit_code, report["kind"], report["status"]) == (1, "race", 1)
    assert [place["text"].split()[0] for place in report["places"]] == RACES[name]


COUNTS = [(1, "wrong-bytes", "1024 bytes more"), (3, "deadlock", "lacks 16 bytes")]


@pytest.mark.parametrize(("fault", "kind", "said"), COUNTS)
def test_planted_counts_of_bytes_are_found_at_the_calls_that_were_inlined(fault: int, kind: str, said: str) -> None:
    """A ring that bulk copies fill expects half of the bytes, or 16 more than there are."""
    report = json.loads(call("check", KERNELS / "tma_bulk_1d" / f"fault{fault}.ptx", "--json").stdout)
    assert report["kind"] == kind and said in report["message"]
    assert {place["source"][-1]["file"] for place in report["places"]} == {"tma_bulk_1d.cu"}
    assert {len(place["source"]) for place in report["places"]} == {2}


def test_what_only_hardware_promises_is_named_and_refused_on_request() -> None:
    """Triton leaves out the proxy fence between cp.async and wgmma."""
    kernel = KERNELS / "matmul_int8" / "kernel.ptx"
    report = json.loads(call("check", kernel, "--json").stdout)
    assert (report["kind"], [each["name"] for each in report["relies"]]) == ("ok", ["cp-async-seen"])
    assert [place["text"].split(".")[0] for place in report["places"]] == ["wgmma", "cp"]
    assert "verdict    ok, relies on cp-async-seen: no rule" in call("run", kernel).output
    strict = call("check", kernel, "--strict", "--json")
    assert (strict.exit_code, json.loads(strict.stdout)["code"]) == (1, "async-proxy")


def test_a_proxy_fence_may_follow_the_barrier(tmp_path: Path) -> None:
    """Triton 3.7 and later have one there, for what cp.async has copied; Triton 3.9 also for stores of threads."""
    fence = r"fence\.proxy\.async\.shared::cta;\s+// end inline asm\s+"
    for name, before in (("matmul_int8", ""), ("matmul_fp16_s2", fence)):
        folder = Path(shutil.copytree(KERNELS / name, tmp_path / name))
        text, later = (folder / "kernel.ptx").read_text(), r"bar.sync 0; fence.proxy.async.shared::cta;"
        text, count = re.subn(before + r"bar\.sync \t0;", later, text, count=1)
        assert count == 1
        (folder / "kernel.ptx").write_text(text)
        report = json.loads(call("check", folder, "--strict", "--json").stdout)
        assert (report["kind"], report["relies"]) == ("ok", [])


def test_a_planted_hang_is_found_with_what_each_warp_waits_for() -> None:
    done = call("check", KERNELS / "reverse" / "fault2.ptx", "--json")
    report = json.loads(done.stdout)
    assert (done.exit_code, report["kind"]) == (1, "deadlock")
    assert "\n  CTAs 0-1 warps 0-7 wait at `mbarrier.test_wait" in report["message"]
    assert "lacks 1 of 257 arrivals" in report["message"]
    assert [place["source"][0]["line"] for place in report["places"]] == [17]


def test_a_wrong_result_is_told_from_a_broken_rule(folder: Path) -> None:
    after = dict(np.load(folder / "after.npz"))
    after["out"][1] += 1
    np.savez(folder / "after.npz", **after)
    done = call("run", folder / "kernel.ptx")
    assert done.exit_code == 1
    assert f"verdict    wrong-result: out[1] is {after['out'][1] - 1}, not {after['out'][1]}; 1 of 3" in done.output


def test_an_array_that_the_launch_did_not_change_must_not_change(folder: Path) -> None:
    after = dict(np.load(folder / "after.npz"))
    np.savez(folder / "after.npz", **{"in": after["in"]})
    done = call("run", folder / "kernel.ptx")
    assert done.exit_code == 1 and "out[0] is" in done.output and "it should not change" in done.output


def test_the_arrays_after_a_launch_are_written(folder: Path) -> None:
    (folder / "after.npz").rename(folder / "wanted.npz")
    done = call("run", folder / "kernel.ptx", "--out", folder / "found.npz")
    assert done.exit_code == 0 and "as expected" not in done.output
    assert np.array_equal(np.load(folder / "found.npz")["out"], np.load(folder / "wanted.npz")["out"])


def test_a_folder_stands_for_its_files(folder: Path) -> None:
    done = call("check", folder)
    assert done.exit_code == 0 and "as expected" in done.output
    assert call("info", folder).output.splitlines()[2] == "kernel     block_reduce"


def test_a_launch_and_its_arrays_can_lie_elsewhere(folder: Path) -> None:
    shutil.move(folder / "kernel.ptx", folder.parent / "elsewhere.ptx")
    arguments = ["--launch", folder / "launch.json", "--expect", folder / "after.npz"]
    done = call("run", folder.parent / "elsewhere.ptx", *arguments, "--arrays", folder / "before.npz")
    assert done.exit_code == 0 and "as expected" in done.output


def test_info_lists_parameters_resources_and_instructions_that_are_not_interpreted(tmp_path: Path) -> None:
    done = call("info", KERNELS / "matmul_fp16_s1" / "kernel.ptx")
    assert done.exit_code == 0 and "mm_k_param_10  .u64      8" in done.output
    assert "0 bytes of shared memory and what the launch gives" in done.output and ".reqntid 128" in done.output
    text = (KERNELS / "block_reduce" / "kernel.ptx").read_text()
    (tmp_path / "new.ptx").write_text(text.replace("bar.sync", "frobnicate.sync; //", 1))
    done = call("info", tmp_path / "new.ptx", "--json")
    (kernel,) = json.loads(done.stdout)["kernels"]
    (missing,) = kernel["not_interpreted"]
    line = text[: text.index("bar.sync")].count("\n") + 1
    assert (
        done.exit_code == 2
        and f"at new.ptx:{line} (block_reduce.cu:7): instruction 'frobnicate' is not interpreted" in missing
    )


def test_info_lists_forms_that_no_row_takes(tmp_path: Path) -> None:
    product = "mma.sync.aligned.m8n8k4.row.col.f32.bf16.bf16.f32 {r, r}, {r}, {r}, {r, r};"
    head = ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() {\n.reg .b32 r;\n"
    (tmp_path / "new.ptx").write_text(f"{head}{product}\nret;\n}}\n")
    done = call("info", tmp_path / "new.ptx", "--json")
    (kernel,) = json.loads(done.stdout)["kernels"]
    (missing,) = kernel["not_interpreted"]
    assert done.exit_code == 2 and "at new.ptx:6" in missing and "m8n8k4 of 16-bit operands" in missing


FUNCTIONS = """.version 8.0
.target sm_90a
.address_size 64
.func far() { frobnicate.sync; wgmma.fence.sync.aligned; ret; }
.func near() { .param .b32 given; st.param.b32 [given], 1; call far; ret; }
.func unused() { frobnicate.other; ret; }
.entry k() {
.reg .b64 f;
mov.u64 f, near;
like: .callprototype _ ();
call f, like;
frobnicate.sync;
ret;
}
"""


def test_info_lists_instructions_of_functions_that_a_kernel_may_call(tmp_path: Path) -> None:
    (tmp_path / "new.ptx").write_text(FUNCTIONS)
    done = call("info", tmp_path / "new.ptx", "--json")
    (kernel,) = json.loads(done.stdout)["kernels"]
    (missing,) = kernel["not_interpreted"]
    assert done.exit_code == 2 and "`frobnicate.sync;` at new.ptx:12" in missing
    known = FUNCTIONS.replace("frobnicate.sync;", "").replace("sm_90a", "sm_80")
    (tmp_path / "new.ptx").write_text(known)
    done = call("info", tmp_path / "new.ptx", "--json")
    (missing,) = json.loads(done.stdout)["kernels"][0]["not_interpreted"]
    assert "`wgmma.fence.sync.aligned;` at new.ptx:4: sm_80 lacks it" in missing


_ALONE = """
import sys
for name in ("mlir", "lowtide.dialects", "lowtide.compiler", "lowtide.passes", "lowtide.verification"):
    sys.modules[name] = None
sys.argv = ["lowtide", "ptx", "check", sys.argv[1]]
from lowtide.entry import lowtide
sys.exit(lowtide())
"""


def test_the_command_needs_no_mlir() -> None:
    kernel = str(KERNELS / "vec_add_unaligned" / "kernel.ptx")
    done = subprocess.run([sys.executable, "-c", _ALONE, kernel], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and "verdict    ok" in done.stdout


def test_a_launch_that_no_gpu_takes_is_wrong(folder: Path) -> None:
    changed(folder, lambda launch: launch.update(block=[1025, 1, 1]))
    done = call("check", folder / "kernel.ptx")
    assert done.exit_code == 1 and "illegal-launch: launch 0 of block_reduce: a block of [1025, 1, 1]" in done.output
    changed(folder, lambda launch: launch.update(block=[256, 1, 1], shared_bytes=-16))
    assert json.loads(call("check", folder / "kernel.ptx", "--json").stdout)["code"] == "smem-negative"


# Bad input ------------------------------------------------------------------------------------------------------------


def short(launch: dict[str, Any]) -> None:
    launch["arrays"]["out"]["shape"] = [2]


BAD = {
    "launch-file-params": lambda launch: launch["params"].pop(),
    "launch-file-kind": lambda launch: launch["params"][0].update(kind="texture"),
    "launch-file-field": lambda launch: launch.pop("grid"),
    "launch-file-null": lambda launch: launch["arrays"]["out"].update(shape=None),
    "launch-file-list": lambda launch: launch.update(grid="many"),
    "launch-file-integer": lambda launch: launch.update(grid=[1.5]),
    "launch-file-integer-bits": lambda launch: launch["params"][0].update(offset_bytes=2**70),
    "launch-file-pointer": lambda launch: launch["params"][2].update(kind="pointer", array="in"),
    "launch-file-scratch": lambda launch: launch["params"][0].update(kind="scratch", bytes=-8),
    "launch-file-sides": lambda launch: launch.update(grid=[1, 1, 1, 1]),
    "launch-file-object": lambda launch: launch.update(arrays=[]),
    "launch-file-array": lambda launch: launch["params"][0].update(array="nowhere"),
    "launch-file-shape": short,
    "launch-file-address": lambda launch: launch["arrays"]["out"].update(address_mod_256=999),
    "launch-file-unknown": lambda launch: launch["arrays"].pop("in"),
    "launch-file-scalar": lambda launch: launch["params"][2].update(value="seven"),
    "launch-file-tolerance": lambda launch: launch.update(tolerance={"rtol": "small"}),
    "launch-file-tolerance-kind": lambda launch: launch.update(tolerance="loose"),
    "launch-file-relocation": lambda launch: launch.update(relocations=[{"in": "q", "at": 0, "target": "in"}]),
    "launch-file-hex": lambda launch: launch["params"].__setitem__(2, {"kind": "bytes", "hex": "zz"}),
    "launch-file-bytes": lambda launch: launch["params"].__setitem__(2, {"kind": "bytes", "hex": "00"}),
    "ptx-array-element": lambda launch: launch["arrays"]["out"].update(dtype="complex64"),
    "ptx-element-bytes": lambda launch: launch["arrays"]["out"].update(dtype="f16"),
    "launch-file-misspelled": lambda launch: launch.update(sharedbytes=launch.pop("shared_bytes")),
    "launch-file-scalar-type": lambda launch: launch["params"][2].update(type="f32"),
    "launch-file-kernel": lambda launch: launch.update(name="block_reducee"),
    "ptx-scalar-range": lambda launch: launch["params"][2].update(value=2**40),
    "ptx-scalar-float": lambda launch: launch["params"][2].update(value=0.5),
    "launched-array": lambda launch: launch.update(relocations=[{"in": "in", "at": 0, "target": "q"}]),
}


@pytest.mark.parametrize("code", BAD)
def test_a_malformed_launch_cannot_be_judged(code: str, folder: Path) -> None:
    changed(folder, BAD[code])
    done = call("check", folder / "kernel.ptx", "--json")
    report = json.loads(done.stdout)
    assert (done.exit_code, report["kind"], report["code"]) == (2, "bad-input", code), report


@pytest.mark.parametrize("dtype", ["f32", "f16", "s64"])
def test_arrays_have_the_types_of_the_launch(dtype: str, folder: Path) -> None:
    """Also a type of the same size; integers with and without a sign are the same."""
    changed(folder, lambda launch: launch["arrays"]["in"].update(dtype=dtype))
    held = np.load(folder / "before.npz")
    other = np.int32 if dtype == "f32" else np.float32
    np.savez(folder / "before.npz", **{name: held[name].astype(other) for name in held})
    report = json.loads(call("check", folder, "--json").stdout)
    assert report["code"] == "ptx-element-bytes"
    assert f"before.npz: array in has elements of {np.dtype(other).name}; elements of {dtype}" in report["message"]


@pytest.mark.parametrize("name", ["shared", "Shared_Bytes", "sharedbytes", "param", "tolerances"])
def test_misspelled_fields_are_refused(name: str, folder: Path) -> None:
    changed(folder, lambda launch: launch.update({name: 0}))
    assert json.loads(call("check", folder, "--json").stdout)["code"] == "launch-file-misspelled"
    changed(folder, lambda launch: launch.update({"device": launch.pop(name), "note": "", "num_stages": 3}))
    assert call("check", folder).exit_code == 0


def tensor_map(**changed: Any) -> Any:
    fields = {
        "kind": "tensor_map",
        "array": "in",
        "dims": [64, 8],
        "strides_bytes": [256],
        "box": [8, 8],
        "swizzle": 32,
    }
    return lambda launch: launch["params"].__setitem__(0, {**fields, "swizzle": 32, **changed})


MAPS = {
    "launch-file-map": tensor_map(fill="nan"),
    "launch-file-map-strides": tensor_map(element_strides=[2, 1]),
    "launch-file-apart": tensor_map(strides_bytes=[257]),
    "ptx-swizzle": tensor_map(swizzle="96B"),
    "encode-rows": tensor_map(box=[64, 8]),
}


@pytest.mark.parametrize("code", MAPS)
def test_a_tensor_map_that_cannot_be_is_refused(code: str, folder: Path) -> None:
    changed(folder, MAPS[code])
    report = json.loads(call("run", folder / "kernel.ptx", "--json").stdout)
    assert (report["status"], report["code"]) == (2, code)


def zipped(contents: bytes) -> bytes:
    """A file of numpy whose array `in` has these contents, and no time: all workers must name the test alike."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(zipfile.ZipInfo("in.npy"), contents)
    return held.getvalue()


@pytest.mark.parametrize(
    ("name", "contents", "code"),
    [
        ("launch.json", b"{", "launch-file-json"),
        ("launch.json", b"[" * 100_000, "launch-file-json"),
        ("launch.json", b"\xff\xfe", "launch-file-json"),
        ("launch.json", None, "launch-file-missing"),
        ("before.npz", b"PK\x03\x04 no archive", "launch-file-arrays"),
        ("before.npz", zipped(b"\x93NUMPY\x01\x00\x10\x00{'descr': '<i4, (\n"), "launch-file-arrays"),
        ("kernel.ptx", None, "ptx-file-missing"),
        ("kernel.ptx", b"\x00\x01", "ptx-word"),
        ("kernel.ptx", b"", "launch-file-kernel"),
        ("before.npz", b"not an archive", "launch-file-objects"),
    ],
)
def test_files_that_cannot_be_read_are_refused(name: str, contents: bytes | None, code: str, folder: Path) -> None:
    (folder / name).unlink()
    if contents is not None:
        (folder / name).write_bytes(contents)
    done = call("check", folder / "kernel.ptx", "--json")
    assert (done.exit_code, json.loads(done.stdout)["code"]) == (2, code)


def test_a_folder_in_place_of_a_file_is_refused(folder: Path) -> None:
    (folder / "kernel.ptx").unlink()
    (folder / "kernel.ptx").mkdir()
    assert json.loads(call("check", folder, "--json").stdout)["code"] == "ptx-file"
    done = call("info", "x" * 5000)
    assert done.exit_code == 2 and "cannot be read: File name too long" in done.output


def test_a_launch_is_no_ptx(folder: Path) -> None:
    assert json.loads(call("check", folder / "launch.json", "--json").stdout)["code"] == "ptx-file-json"


def test_a_byte_order_mark_is_skipped(folder: Path) -> None:
    for name in ("kernel.ptx", "launch.json"):
        (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    assert call("check", folder).exit_code == 0


def test_a_file_of_several_kernels_needs_a_name(folder: Path) -> None:
    head = ".version 8.0\n.target sm_90a\n.address_size 64\n"
    (folder / "kernel.ptx").write_text(f"{head}.entry a() {{ ret; }}\n.entry b() {{ ret; }}\n")
    changed(folder, lambda launch: (launch.pop("name"), launch["params"].clear()))
    done = call("check", folder)
    assert done.exit_code == 2 and "no name of a kernel is given; kernel.ptx has a, b: name one" in done.output
    assert call("check", folder, "--kernel", "b").exit_code == 1  # the expected arrays are of another kernel


def test_a_file_without_kernels_has_no_information(tmp_path: Path) -> None:
    (tmp_path / "kernel.ptx").write_text("// nothing\n")
    done = call("info", tmp_path, "--json")
    assert (done.exit_code, json.loads(done.stdout)["code"]) == (2, "ptx-file-empty")


def test_information_says_why_there_is_no_estimate(folder: Path) -> None:
    changed(folder, lambda launch: launch.update(grid="many"))
    done = call("info", folder)
    assert done.exit_code == 0 and "estimate   none: " in done.output and "'grid' is a list" in done.output


def test_results_that_cannot_be_written_are_no_verdict(folder: Path) -> None:
    done = call("run", folder, "--out", folder / "nowhere" / "after.npz", "--json")
    assert (done.exit_code, json.loads(done.stdout)["code"]) == (2, "ptx-write")


def test_a_missing_file_of_arrays_is_noted(folder: Path) -> None:
    assert "before.npz" not in call("check", folder).output
    (folder / "before.npz").unlink()
    done = call("check", folder)
    assert done.exit_code == 1 and "note       there is no before.npz, so every array is unwritten" in done.output


@pytest.mark.parametrize(
    ("change", "code"), [({"extra": 0}, "ptx-expected-name"), ({"out": [1]}, "ptx-expected-shape")]
)
def test_expected_arrays_that_do_not_fit_are_refused(change: dict[str, Any], code: str, folder: Path) -> None:
    np.savez(folder / "after.npz", **change)
    assert json.loads(call("run", folder / "kernel.ptx", "--json").stdout)["code"] == code


def test_more_memory_than_there_is_is_refused_before_it_is_taken(folder: Path) -> None:
    changed(folder, lambda launch: launch["arrays"].update(huge={"dtype": "i32", "shape": [2**44]}))
    done = call("run", folder / "kernel.ptx")
    assert done.exit_code == 2 and "take the interpreter" in done.output


@pytest.mark.parametrize("rtol", [-1, float("nan"), float("inf")])
def test_a_tolerance_that_accepts_all_or_nothing_is_refused(rtol: float, folder: Path) -> None:
    changed(folder, lambda launch: launch.update(tolerance={"rtol": rtol}))
    assert json.loads(call("check", folder / "kernel.ptx", "--json").stdout)["code"] == "launch-file-tolerance"


def test_a_budget_that_is_none_is_refused() -> None:
    done = call("run", KERNELS / "block_reduce" / "kernel.ptx", "--minutes", "0.0000001")
    assert done.exit_code == 2 and "time-budget" in done.output
    done = call("run", KERNELS / "block_reduce" / "kernel.ptx", "--base", "best")
    assert done.exit_code == 2 and "base 'best': it is one of aligned, worst [ptx-base]" in done.output
