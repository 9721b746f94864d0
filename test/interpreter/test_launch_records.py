"""Launches as data: host IR and saved kernels make the same ones, and PTX runs from them without a compiler."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.errors import InterpreterError, LaunchError
from lowtide.interpreter import Loaded, interpret, launch_record, run
from lowtide.launches import Array, Launch, LaunchRecord, Pointer
from lowtide.runtime import records
from lowtide.runtime.storage import read

KERNELS = {
    "cp.async and mma.sync": ("sm_80", "grid.tile = [64, 64], k = 32, stages = 3"),
    "TMA, wgmma and roles": ("sm_90a", "grid.tile = [64, 64]"),
    "K in parts": ("sm_80", "sm80-split-k"),
}


def epilogue(acc: Any, bias: lt.PerColumn) -> Any:
    return lt.relu(acc + bias)


@cache
def compiled(name: str) -> Any:
    target, schedule = KERNELS[name]
    spec = lt.GemmSpec(a="f16", b="f16", d="f16", layout="tn", epilogue=epilogue)
    return lt.compile_gemm(spec, target=target, schedule=schedule)


def operands() -> dict[str, np.ndarray]:
    """A and B with padded rows, D's place, and a bias."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, 72)).astype(np.float16)[:, :64] for rows in (72, 80))
    return {"a": a, "b": b, "d": np.zeros((72, 80), np.float16), "bias": rng.integers(-3, 4, 80).astype(np.float16)}


def expected(given: dict[str, np.ndarray]) -> np.ndarray:
    return np.maximum(given["a"].astype(float) @ given["b"].astype(float).T + given["bias"], 0)


@pytest.mark.parametrize("name", KERNELS)
def test_host_ir_and_a_saved_kernel_make_the_same_launches(name: str, tmp_path: Path) -> None:
    kernel, given = compiled(name), operands()
    kernel.save(tmp_path / "saved")
    manifest = json.loads((tmp_path / "saved" / "manifest.json").read_text())
    saved = records.launch_record(manifest, given, 4)
    assert launch_record(kernel.levels["llvm"], given, sms=4).launches == saved.launches
    assert np.array_equal(run(kernel.ptx, saved)["d"], expected(given))


_ALONE = """
import sys
for name in ("mlir", "lowtide.dialects", "lowtide.compiler", "lowtide.passes"):
    sys.modules[name] = None
from pathlib import Path
import numpy as np
from lowtide.interpreter import run
from lowtide.runtime.records import launch_record
from lowtide.runtime.storage import read
manifest, ptx, _ = read(sys.argv[1])
given = dict(np.load(sys.argv[2]))
np.save(sys.argv[3], run(ptx, launch_record(manifest, given, 4))["d"])
"""


@pytest.mark.parametrize("name", ["cp.async and mma.sync", "TMA, wgmma and roles"])
def test_a_saved_kernel_runs_where_there_is_no_mlir(name: str, tmp_path: Path) -> None:
    given = operands()
    compiled(name).save(tmp_path / "saved")
    np.savez(tmp_path / "given.npz", **given)
    files = (tmp_path / "saved", tmp_path / "given.npz", tmp_path / "d.npy")
    subprocess.run([sys.executable, "-c", _ALONE, *map(str, files)], check=True)
    assert np.array_equal(np.load(tmp_path / "d.npy"), expected(given))


def test_a_record_runs_in_every_domain_and_order() -> None:
    kernel, given = compiled("TMA, wgmma and roles"), operands()
    record = launch_record(kernel.levels["llvm"], given)
    found = run(kernel.ptx, record, domain="exact")["d"]
    loaded = Loaded(kernel.levels["llvm"], kernel.ptx)
    assert np.array_equal(found.reshape(72, 80), interpret(loaded, given, domain="exact"))


def test_launches_are_recorded_at_the_level_whose_kernels_take_what_ptx_does() -> None:
    kernel, given = compiled("cp.async and mma.sync"), operands()
    with pytest.raises(InterpreterError, match=r"launches are recorded at level llvm, .* not nvvm.*\[record-level\]"):
        launch_record(kernel.levels["nvvm"], given)


# Kernels that others wrote --------------------------------------------------------------------------------------------

STRANGER = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .f32 by, .param .u32 count)
{
.reg .pred %p<3>;
.reg .f32 %f<4>;
.reg .b32 %r<6>;
.reg .b64 %rd<6>;
.shared .align 4 .b8 kept[128];
ld.param.u64 %rd1, [x];
ld.param.f32 %f1, [by];
ld.param.u32 %r1, [count];
mov.u32 %r2, %tid.x;
setp.ge.s32 %p1, %r2, %r1;
@%p1 bra DONE;
mul.wide.u32 %rd2, %r2, 4;
add.s64 %rd3, %rd1, %rd2;
mov.u32 %r3, kept;
shl.b32 %r4, %r2, 2;
add.s32 %r5, %r3, %r4;
ld.global.f32 %f2, [%rd3];
mul.rn.f32 %f3, %f2, %f1;
st.shared.f32 [%r5], %f3;
ld.shared.f32 %f3, [%r5];
st.global.f32 [%rd3], {%f3};
DONE:
ret;
}
"""


def stranger(**changed: Any) -> LaunchRecord:
    """x[4:4 + 20] scaled by 0.5, in place."""
    scalars = np.float32(0.5).tobytes(), np.int32(20).tobytes()
    launch = Launch("scale", (1, 1, 1), (32, 1, 1), (Pointer("x", 16), *scalars))
    return LaunchRecord({"x": Array("f32", (40,), (), np.arange(40))}, (replace(launch, **changed),))


def test_parameters_are_bytes_and_pointers_into_arrays() -> None:
    scaled = np.arange(40, dtype=np.float32)
    scaled[4:24] /= 2
    assert np.array_equal(run(STRANGER, stranger())["x"], scaled)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kernel": "other"}, r"has no kernel other; it has scale.*\[launched-kernel\]"),
        ({"parameters": ()}, r"launch 0 of scale: 0 parameters; scale takes 3.*\[launched-parameters\]"),
        ({"grid": (1, 70000, 1)}, r"launch 0 of scale: a grid of \[1, 70000, 1\];.*\[launched-extents\]"),
        ({"grid": (4, 2, 1), "cluster": (2, 4, 1)}, r"clusters of \[2, 4, 1\]; each side.*\[launched-cluster-sides\]"),
        ({"block": (48, 32, 1)}, r"1536 threads per CTA; take .* up to 1024.*\[threads-per-cta\]"),
        ({"shared_bytes": 200_000}, "200000 bytes of shared memory; a CTA has 166912 on sm_80"),
    ],
)
def test_a_launch_that_cannot_run_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InterpreterError, match=message):
        run(STRANGER, stranger(**changed))


def test_an_array_of_an_unknown_type_is_refused() -> None:
    record = replace(stranger(), arrays={"x": Array("complex64", (40,), (), np.arange(40))})
    with pytest.raises(
        InterpreterError,
        match=r"elements of type complex64 are not interpreted; take one of i1, i8.*\[launched-element\]",
    ):
        run(STRANGER, record)


def test_a_record_of_a_saved_kernel_takes_shared_operands_and_refuses_what_a_call_refuses(tmp_path: Path) -> None:
    spec = lt.GemmSpec(a="f16", b="f16", d="f16", layout="tn", batch=None, epilogue=epilogue)
    manifest, ptx, _ = read(lt.compile_gemm(spec, "sm_80").save(tmp_path / "saved"))
    one = operands()
    given = {**one, "a": np.stack([one["a"], 2 * one["a"]]), "d": np.zeros((2, 72, 80), np.float16)}
    found = run(ptx, records.launch_record(manifest, given, 4))["d"]
    assert np.array_equal(found, np.stack([expected(one), expected({**one, "a": 2 * one["a"]})]))
    with pytest.raises(LaunchError, match=r"\[operand-rank\]"):
        records.launch_record(manifest, {**given, "bias": given["bias"][None, None]}, 4)
