"""`lt.ptx`: kernels on numpy arrays, their arguments, and reports."""

import json
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 - registers bfloat16
import numpy as np
import pytest
from scaling import HEAD, REGISTERS, SCALE
from typer.testing import CliRunner

import lowtide as lt
from lowtide.cli.main import app
from lowtide.errors import InterpreterError, LaunchError
from lowtide.interpreter.numbers.cells import Buffer
from lowtide.ptx.judging import check_record
from lowtide.ptx.kinds import KIND_OF_CODE, KINDS
from lowtide.ptx.launch_files import read_launch

ROOT = Path(__file__).resolve().parents[2]

X = np.arange(40, dtype=np.float32)


def scale() -> Any:
    return lt.ptx.load(SCALE, "scale.ptx")["scale"]


def test_a_kernel_runs_on_arrays_which_do_not_change() -> None:
    (found,) = scale().run(grid=1, block=(40,), args=[X, 0.5, 20])
    assert np.array_equal(found, np.where(X < 20, X / 2, X)) and np.array_equal(X, np.arange(40))


def test_halves_of_elements_are_not_stored_but_bytes_hold_all_types() -> None:
    """An array whose elements are declared too wide says nothing about the kernel."""
    text = SCALE.replace("st.global.f32 [%rd3], %f3;", "cvt.rn.f16.f32 %h1, %f3;\nst.global.b16 [%rd3], %h1;")
    kernel = lt.ptx.load(text)["scale"]
    report = kernel.check(grid=1, block=64, args=[X, 0.5, 40])
    assert (report.kind, report.code) == ("not-interpreted", "store-narrower")
    assert kernel.check(grid=1, block=64, args=[X.view(np.uint8), 0.5, 40]).ok


def test_a_bulk_reduction_needs_elements_as_wide_as_its_own() -> None:
    kernel = lt.ptx.load((ROOT / "test" / "ptx" / "kernels" / "bulk_add" / "kernel.ptx").read_text())["bulk_add"]
    x, sums = np.arange(512, dtype=np.int32), np.zeros(128, np.int32)
    assert kernel.check(grid=4, block=128, args=[x, sums], expect=[None, x.reshape(4, 128).sum(0, np.int32)]).ok
    report = kernel.check(grid=4, block=128, args=[x, sums.view(np.uint8)])
    assert (report.kind, report.code) == ("not-interpreted", "reduced-elements")


def test_a_report_says_what_is_wrong_and_where() -> None:
    report = scale().check(grid=1, block=64, args=[X, 0.5, 41])
    assert (report.kind, report.status, report.code) == ("out-of-bounds", 1, "outside-matrices")
    (place,) = report.places
    assert (place.line, place.text) == (19, "ld.global.f32 %f2, [%rd3];")
    assert "not all of them in an array" in str(report) and "line 19" in str(report)


def test_a_wrong_result_names_the_last_write_of_the_element() -> None:
    wanted = np.where(X < 20, X / 2, X)
    wanted[7] = 5
    report = scale().check(grid=1, block=40, args=[X, 0.5, 20], names=["vector", "by", "count"], expect=[wanted])
    assert (report.kind, [each.line for each in report.places]) == ("wrong-result", [21])
    last = "vector[7] was last written by CTA 0 warp 0 lane 7 by `st.global.f32 [%rd3], %f3;` at scale.ptx:21"
    assert report.message.startswith("vector[7] is 3.5, not 5.0; 1 of 40 elements differ") and last in report.message
    wanted[7], wanted[30] = 3.5, 5
    report = scale().check(grid=1, block=40, args=[X, 0.5, 20], expect=[wanted])
    assert report.message.endswith("; nothing has written x[30]") and report.places == ()
    text = SCALE.replace("st.global.f32 [%rd3], %f3", "red.global.add.f32 [%rd3], %f3")
    report = lt.ptx.load(text)["scale"].check(grid=1, block=40, args=[X, 0.5, 20], expect=[wanted])
    assert "x[1] was last written by CTA 0 warp 0 lane 1 by `red.global.add.f32" in report.message


def test_names_are_one_for_each_argument() -> None:
    two = lt.ptx.load(SCALE.replace(".param .f32 by", ".param .u64 y").replace("ld.param.f32 %f1, [by]", ""))["scale"]
    with pytest.raises(LaunchError, match=r"\[ptx-names\]"):
        scale().check(grid=1, block=40, args=[X, 0.5, 20], names=["x"])
    with pytest.raises(LaunchError, match=r"\[ptx-name-twice\]"):
        two.check(grid=1, block=40, args=[X, X + 1, 20], names=["x", "x", "count"])


def test_results_are_compared_within_tolerances() -> None:
    near = [np.where(X < 20, X / 2, X) * np.float32(1.001)]
    assert scale().check(grid=1, block=40, args=[X, 0.5, 20], expect=near).kind == "wrong-result"
    assert scale().check(grid=1, block=40, args=[X, 0.5, 20], expect=near, rtol=0.01).ok
    assert scale().check(grid=1, block=40, args=[X, 0.5, 20], expect=[None]).ok


def test_padding_between_rows_is_out_of_bounds() -> None:
    padded = np.zeros((4, 16), np.float32)[:, :10]
    assert scale().check(grid=1, block=32, args=[padded, 2.0, 10]).ok
    assert scale().check(grid=1, block=32, args=[padded, 2.0, 11]).kind == "out-of-bounds"


def test_elements_that_were_never_written_are_not_read() -> None:
    assert scale().check(grid=1, block=32, args=[lt.ptx.Unwritten((40,), "f4"), 2.0, 0]).ok
    assert scale().check(grid=1, block=32, args=[lt.ptx.Unwritten((40,), "f4"), 2.0, 1]).code == "uninitialised-read"


COPY = f"""{HEAD}.visible .entry copy(.param .u64 x, .param .u64 y, .param .u64 none)
{{
{REGISTERS}ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [none];
setp.ne.s64 %p1, %rd3, 0; @%p1 bra END;
ld.global.u16 %h1, [%rd1+2]; st.global.u16 [%rd2], %h1;
END:
ret;
}}
"""


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float16", "bfloat16"])
def test_arrays_keep_their_types_and_none_is_a_null_pointer(dtype: str) -> None:
    x = np.array([1, 3], dtype)
    found = lt.ptx.load(COPY)["copy"].run(grid=1, block=1, args=[x, np.zeros(1, dtype), None])
    assert [each.dtype for each in found] == [x.dtype, x.dtype] and found[1][0] == 3
    scratch = lt.ptx.load(COPY)["copy"].run(grid=1, block=1, args=[x, np.zeros(1, dtype), lt.ptx.Scratch(8)])
    assert len(scratch) == 2 and scratch[1][0] == 0  # it has no result; its pointer is not null, so nothing is copied
    again = lt.ptx.load(COPY)["copy"].run(grid=1, block=1, args=[x, x, None])
    assert again[0].tolist() == again[1].tolist() == [3, 3]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([X], "ptx-arguments"),
        ([X, 0.5, 2**32], "ptx-scalar-range"),
        ([X, 0.5, 1.5], "ptx-scalar-float"),
        ([X, X, 1], "ptx-pointer"),
        ([{}, 0.5, 1], "ptx-argument"),
        ([X.astype(object), 0.5, 1], "ptx-objects"),
        ([[[1], [2, 3]], 0.5, 1], "ptx-array"),
        ([np.zeros(8, np.complex64), 0.5, 1], "ptx-array-element"),
        ([np.zeros(4, [("a", "f4"), ("b", "u1")])["a"], 0.5, 1], "ptx-array-strides"),
        ([X, 0.5, lt.ptx.Bytes(b"abc")], "ptx-struct"),
        ([X, 0.5, lt.ptx.Bytes("abcd")], "ptx-struct-bytes"),  # type: ignore[arg-type]
        ([lt.ptx.TensorMap(X, (8,)), 0.5, 1], "ptx-map-parameter"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args: list[Any], code: str) -> None:
    with pytest.raises(LaunchError, match=rf"\[{code}\]"):
        scale().run(grid=1, block=32, args=args)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"grid": (1, 1, 1, 1)}, "ptx-sides"),
        ({"grid": "many"}, "ptx-whole-numbers"),
        ({"block": 32.5}, "ptx-whole-numbers"),
        ({"shared": 0.5}, "ptx-whole-numbers"),
        ({"grid": np.int64(1), "block": np.array([32]).tolist()}, None),
        ({"expect": [X], "rtol": float("nan")}, "ptx-tolerance"),
        ({"atol": -1.0}, "ptx-tolerance"),
        ({"rtol": "a"}, "ptx-tolerance"),
        ({"expect": {"x": X}}, "ptx-expected-list"),
        ({"expect": [X, X]}, "ptx-expected-count"),
        ({"settings": lt.ptx.Settings()}, None),
    ],
)
def test_options_of_a_check_are_checked(changed: dict[str, Any], code: str | None) -> None:
    given = {"grid": 1, "block": 32, "args": [X, 0.5, 1], **changed}
    if code is None:
        assert scale().check(**given).ok
        return
    with pytest.raises(LaunchError, match=rf"\[{code}\]"):
        scale().check(**given)


STORES = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
{{
.reg .b16 %h<2>; .reg .b32 %r<3>; .reg .b64 %rd<2>; mov.u32 %r1, %ctaid.x; cvt.u16.u32 %h1, %r1;
{body}
ret;
}}
"""


def test_messages_name_elements_by_their_indices() -> None:
    """Also of a view whose rows are apart, transposed."""
    rows = np.zeros((6, 8), np.int16)[::2, 1:5].T  # (4, 3), element (i, j) at i + 16 * j
    kernel = lt.ptx.load(STORES.format(body="ld.param.u64 %rd1, [x]; st.global.u16 [%rd1+34], %h1;"))["k"]
    report = kernel.check(grid=2, block=1, args=[rows], names=["x"])
    assert report.kind == "race" and ", x[1, 1])" in report.message, report.message
    buffer = Buffer("x", 0, 128, sides=((4, 4), (1, 0), (2, 64)))
    found = [buffer.element(at) for at in (0, 12, 66, 72)]
    assert found == ["x[0, 0, 0]", "x[3, 0, 0]", "byte 2 of x[0, 0, 1]", "x[2, 0, 1]"]


def test_a_launch_with_too_little_shared_memory_is_told() -> None:
    body = ".shared .b8 own[8]; mov.u32 %r2, all; st.shared.u32 [%r2+16], %r1;"
    kernel = lt.ptx.load(
        STORES.format(body=body).replace(".visible", ".extern .shared .align 16 .b8 all[];\n.visible")
    )["k"]
    report = kernel.check(grid=1, block=1, args=[None])
    wanted = "4 bytes outside shared memory; the launch gives 0 bytes of it beside the kernel's own (shared_bytes)"
    assert report.kind == "out-of-bounds" and wanted in report.message, report.message
    assert kernel.check(grid=1, block=1, args=[None], shared=32).ok


def test_scratch_memory_of_each_cta_grows_with_the_grid(tmp_path: Path) -> None:
    """A record says its bytes per CTA; each CTA stores to its own."""
    body = "ld.param.u64 %rd1, [x]; mad.wide.u32 %rd1, %r1, 8, %rd1; st.global.u64 [%rd1], %rd1;"
    kernel = lt.ptx.load(STORES.format(body=body))["k"]
    kernel.record(tmp_path, grid=2, block=1, args=[lt.ptx.Scratch(16, per_cta=8)])
    launch = json.loads((tmp_path / "launch.json").read_text())
    assert (launch["params"], launch["arrays"]) == ([{"kind": "scratch", "bytes": 8}], {})
    for grid, bytes, kind in ((2, 8, "ok"), (5, 8, "ok"), (5, 4, "out-of-bounds")):
        changed = launch | {"grid": [grid], "params": [{"kind": "scratch", "bytes": bytes}]}
        (tmp_path / "launch.json").write_text(json.dumps(changed))
        given = read_launch(kernel.source.module, tmp_path / "launch.json", None, None, None)
        assert check_record(kernel.source, given.record, given.expected, lt.ptx.Settings()).kind == kind


def test_the_name_of_a_file_is_no_ptx() -> None:
    with pytest.raises(LaunchError, match=r"\[ptx-path\]"):
        lt.ptx.load("kernels/axpy/kernel.ptx")


def test_budgets_are_at_least_one() -> None:
    with pytest.raises(LaunchError, match=r"\[ptx-budgets\]"):
        lt.ptx.Settings(max_steps=0)
    with pytest.raises(LaunchError, match=r"\[ptx-minutes\]"):
        lt.ptx.Settings(minutes=0)


@pytest.mark.parametrize(
    ("shape", "dtype", "code"),
    [(8.5, "f4", "ptx-unwritten"), (8, "quux", "ptx-unwritten"), ((2, -1), "f4", "ptx-unwritten-side")],
)
def test_an_unwritten_array_has_a_shape_and_a_type(shape: Any, dtype: str, code: str) -> None:
    assert (lt.ptx.Unwritten(8, "f4").shape, lt.ptx.Unwritten([8], "f4").shape) == ((8,), (8,))
    with pytest.raises(LaunchError, match=rf"\[{code}\]"):
        lt.ptx.Unwritten(shape, dtype)


def test_a_kernel_is_loaded_from_text_and_not_from_a_path() -> None:
    with pytest.raises(LaunchError, match=r"a str, not PosixPath \[ptx-text\]"):
        lt.ptx.load(Path("kernel.ptx"))  # type: ignore[arg-type]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(LaunchError, match=r"taken cannot be written: .* \[ptx-write\]"):
        scale().record(tmp_path / "taken", grid=1, block=32, args=[X, 0.5, 1])


def test_a_kernel_is_one_of_its_module() -> None:
    module = lt.ptx.load(SCALE)
    assert list(module) == ["scale"] and len(module) == 1
    with pytest.raises(InterpreterError, match=r"has no kernel other; it has scale \[ptx-kernel\]"):
        module["other"]


MAPPED = f"""{HEAD}.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)
{{
{REGISTERS}.shared .align 128 .b8 tile[128]; .shared .align 8 .b8 gate[8];
mov.u32 %r1, tile; mov.u32 %r2, gate; ld.param.u64 %rd1, [out]; mov.u32 %r3, %tid.x;
setp.ne.s32 %p1, %r3, 0; @%p1 bra WAIT;
mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
mov.b64 %rd2, map;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd2, {{4, 1}}], [%r2];
WAIT:
bar.sync 0;
AGAIN:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra AGAIN;
shl.b32 %r4, %r3, 2; add.s32 %r5, %r1, %r4; ld.shared.u32 %r6, [%r5];
mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r6;
ret;
}}
"""


def test_a_tensor_map_is_a_view_of_an_array() -> None:
    """A box of 4 rows and 8 columns at row 1, column 4 of 4 × 16: its last row is outside, and reads as zero."""
    x = np.arange(64, dtype=np.int32).reshape(4, 16)
    args = [lt.ptx.TensorMap(x, (4, 8)), np.zeros((4, 8), np.int32)]
    kernel = lt.ptx.load(MAPPED)["k"]
    found = kernel.run(grid=1, block=32, args=args)
    assert np.array_equal(found[1], [*x[1:, 4:12], np.zeros(8)])
    with pytest.raises(LaunchError, match=r"\[ptx-map-strides\]"):
        kernel.run(grid=1, block=32, args=[lt.ptx.TensorMap(x.T, (4, 8)), args[1]])


def test_a_hang_is_reported_with_what_each_warp_waits_for() -> None:
    wrong = MAPPED.replace("_, [%r2], 128;", "_, [%r2], 144;")
    args = [lt.ptx.TensorMap(np.zeros((4, 16), np.int32), (4, 8)), np.zeros((4, 8), np.int32)]
    report = lt.ptx.load(wrong)["k"].check(grid=1, block=64, args=args)
    assert (report.kind, report.status) == ("deadlock", 1)
    assert "warps 0-1 wait at `mbarrier.try_wait" in report.message and "16 bytes" in report.message
    assert wrong.splitlines()[report.places[0].line - 1].startswith("mbarrier.try_wait")


def test_a_struct_takes_no_number() -> None:
    with pytest.raises(LaunchError, match=r"\[ptx-scalar-struct\]"):
        lt.ptx.load(MAPPED)["k"].run(grid=1, block=32, args=[1, X])


ORDERED = f"""{HEAD}.visible .entry k(.param .u64 x)
{{
{REGISTERS}ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; shr.u32 %r3, %r1, 5; add.s32 %r3, %r3, 1;
setp.ne.s32 %p1, %r2, 0; @%p1 bra DONE;
atom.relaxed.gpu.global.exch.b32 %r4, [%rd1], %r3;
DONE:
ret;
}}
"""


def test_other_orders_of_warps_are_run_if_one_run_does_not_speak_for_all() -> None:
    """The last of two warps decides; a sum of both is the same in all orders."""
    x = [np.zeros(1, np.int32)]
    (first,) = lt.ptx.load(ORDERED)["k"].run(grid=1, block=64, args=x)
    report = lt.ptx.load(ORDERED)["k"].check(grid=1, block=64, args=x, expect=[first])
    assert (report.kind, report.code) == ("wrong-result", "ptx-wrong-result") and "x[0] is" in report.message
    summed = lt.ptx.load(ORDERED.replace("exch.b32", "add.u32"))["k"]
    assert summed.check(grid=1, block=64, args=x, expect=[np.array([3], np.int32)]).ok


STRUCT = f"""{HEAD}.visible .entry k(.param .align 8 .b8 all[24])
{{
{REGISTERS}ld.param.u64 %rd1, [all+8]; ld.param.u64 %rd2, [all+16]; ld.param.v2.u32 {{%r1, %r2}}, [all];
ld.global.u32 %r3, [%rd1]; add.s32 %r3, %r3, %r1; add.s32 %r3, %r3, %r2; st.global.u32 [%rd2], %r3;
ret;
}}
"""


def test_a_struct_by_value_has_numbers_and_pointers(tmp_path: Path) -> None:
    kernel, x, y = lt.ptx.load(STRUCT)["k"], np.array([30], np.int32), np.zeros(1, np.int32)
    args = [lt.ptx.Bytes(struct.pack("<ii16x", 1, -20), {8: x, 16: y})]
    assert [each.tolist() for each in kernel.run(grid=1, block=1, args=args)] == [[30], [11]]
    kernel.record(tmp_path, grid=1, block=1, args=args, expect=[None, np.array([11], np.int32)])
    assert checked_files(tmp_path)["kind"] == "ok"
    with pytest.raises(InterpreterError, match=r"\[launched-struct\]"):
        kernel.run(grid=1, block=1, args=[lt.ptx.Bytes(bytes(24), {20: x})])


LOOP = f"""{HEAD}.visible .entry k()
{{
{REGISTERS}mov.u32 %r1, 0;
AGAIN:
add.s32 %r1, %r1, 1;
setp.ne.s32 %p1, %r1, 0; @%p1 bra AGAIN;
ret;
}}
"""


def test_an_endless_loop_ends_by_a_budget_with_where_each_warp_stands() -> None:
    settings = lt.ptx.Settings(max_steps=1000)
    report = lt.ptx.load(LOOP)["k"].check(grid=1, block=64, args=[], settings=settings)
    assert (report.kind, report.status) == ("step-budget", 2)
    assert "CTA 0 warps 0-1 are at `@%p1 bra AGAIN;`" in report.message
    assert report.places[0].text == "@%p1 bra AGAIN;"


def test_a_launch_that_takes_longer_than_allowed_ends_with_where_each_warp_stands() -> None:
    settings = lt.ptx.Settings(minutes=0.001)
    report = lt.ptx.load(LOOP)["k"].check(grid=1, block=64, args=[], settings=settings)
    assert (report.kind, report.status, report.code) == ("time-budget", 2, "out-of-time")
    assert "CTA 0 warps 0-1 are at `@%p1 bra AGAIN;`" in report.message
    assert scale().check(grid=1, block=32, args=[X, 0.5, 1], settings=lt.ptx.Settings(minutes=10)).ok


def test_shared_memory_that_is_only_as_aligned_as_declared_is_an_option() -> None:
    text = f"""{HEAD}.extern .shared .align 16 .b8 kept[];
.visible .entry k(.param .u64 out)
{{
{REGISTERS}ld.param.u64 %rd1, [out]; mov.u32 %r1, kept; and.b32 %r2, %r1, 1023; st.global.u32 [%rd1], %r2;
ret;
}}
"""
    for base, start in (("aligned", 0), ("worst", 16)):
        given = {"grid": 1, "block": 1, "args": [np.zeros(1, np.int32)], "settings": lt.ptx.Settings(base=base)}
        assert lt.ptx.load(text)["k"].run(**given)[0][0] == start


def test_each_kind_of_verdict_is_known_and_each_code_is_of_a_rule() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "interpreter").rglob("*.py") if path.name != "kinds.py"
    )
    assert set(KIND_OF_CODE.values()) <= set(KINDS)
    assert [code for code in KIND_OF_CODE if f"[{code}]" not in sources] == []


_ALONE = """
import sys
for name in ("mlir", "lowtide.dialects", "lowtide.compiler", "lowtide.passes", "lowtide.verification"):
    sys.modules[name] = None
import lowtide as lt
import numpy as np
print(lt.ptx.load(sys.argv[1])["scale"].check(grid=1, block=32, args=[np.zeros(40, np.float32), 2.0, 20]).kind)
"""


def test_the_module_needs_no_mlir() -> None:
    done = subprocess.run([sys.executable, "-c", _ALONE, SCALE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_a_report_is_data() -> None:
    report = scale().check(grid=1, block=64, args=[X, 0.5, 41])
    data = report.as_dict()
    assert data["places"] == [{"line": 19, "text": "ld.global.f32 %f2, [%rd3];", "source": []}]
    assert data["kind"] == "out-of-bounds" and replace(report, kind="ok").ok


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint16"])
def test_a_launch_that_is_recorded_is_checked_from_its_files(dtype: str, tmp_path: Path) -> None:
    """A strided array, an unwritten one, a null pointer; another result than the expected one is found."""
    x, y = np.array([[1, 3, 5], [7, 9, 11]], dtype)[:, :2], lt.ptx.Unwritten((1,), dtype)
    for expected, kind in ((3, "ok"), (1, "wrong-result")):
        given = {"args": [x, y, None], "expect": [None, np.array([expected], dtype)]}
        lt.ptx.load(COPY)["copy"].record(tmp_path, grid=1, block=1, **given)
        assert checked_files(tmp_path)["kind"] == kind


def test_the_parameters_of_a_recorded_launch_are_readable(tmp_path: Path) -> None:
    scale().record(tmp_path / "scale", grid=2, block=(32, 1), args=[X, 0.5, 20], rtol=0.5)
    launch = json.loads((tmp_path / "scale" / "launch.json").read_text())
    assert launch["grid"] == [2, 1, 1] and launch["tolerance"] == {"rtol": 0.5, "atol": 0.0}
    assert launch["params"] == [
        {"kind": "pointer", "array": "x", "offset_bytes": 0},
        {"kind": "scalar", "type": "f32", "value": 0.5},
        {"kind": "scalar", "type": "u32", "value": 20},
    ]
    assert checked_files(tmp_path / "scale")["kind"] == "race"  # two CTAs change the same elements


def test_a_recorded_tensor_map_is_the_same(tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.int32).reshape(4, 16)
    args = [lt.ptx.TensorMap(x, (4, 8)), np.zeros((4, 8), np.int32)]
    expect = [None, np.stack([*x[1:, 4:12], np.zeros(8, int)]).astype(np.int32)]
    lt.ptx.load(MAPPED)["k"].record(tmp_path, grid=1, block=32, args=args, expect=expect)
    assert checked_files(tmp_path)["kind"] == "ok"


def checked_files(folder: Path) -> Any:
    done = CliRunner().invoke(app, ["ptx", "check", str(folder / "kernel.ptx"), "--json"])
    return json.loads(done.stdout)
