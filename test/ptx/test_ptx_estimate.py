"""Estimates of a run before it starts: warp instructions from walks of single threads, memory and time."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import lowtide as lt
from lowtide.cli.ptx import app
from lowtide.interpreter.machine.options import Work
from lowtide.launches import Array, Launch, LaunchRecord
from lowtide.ptx.estimate import Estimate, estimate
from lowtide.ptx.judging import Expected, Watch, run_judged
from lowtide.ptx.launch_files import read_launch
from lowtide.ptx.settings import Settings

KERNELS = Path(__file__).parent / "kernels"
HEAD = """.version 8.0
.target sm_90a
.address_size 64
.func f() {
.reg .pred %p; .reg .b32 %r;
mov.u32 %r, 0;
AGAIN: add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 10; @%p bra AGAIN;
ret; }
.visible .entry k(.param .u32 n, .param .u64 x) {
.reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
ld.param.u32 %r1, [n]; ld.param.u64 %rd1, [x]; mov.u32 %r2, 0;
"""


def given(body: str, n: int, grid: int = 1, block: int = 32) -> tuple[Estimate, int]:
    """The estimate, and the number of instructions of the run."""
    source = lt.ptx.load(f"{HEAD}{body}\nret; }}")
    array = Array("i32", (64,), (1,), np.zeros(64, np.int32))
    parameters = n.to_bytes(4, "little"), lt.launches.Pointer("x")
    record = LaunchRecord({"x": array}, (Launch("k", (grid, 1, 1), (block, 1, 1), parameters),))
    work = Work()
    assert run_judged(source.parsed, record, Expected(), Settings(), Watch(work=work)).ok
    return estimate(source.parsed, record), work.instructions


def test_a_loop_to_a_parameter_is_followed() -> None:
    loop = "LOOP: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra LOOP;"
    found, ran = given(loop, 50, grid=2, block=64)
    assert (found.instructions, found.is_rough) == (4 * (3 + 3 * 50 + 1), False)
    assert ran == pytest.approx(found.instructions, rel=0.02)
    assert str(found) == "about 616 warp instructions, less than a second, 1 MiB of memory"


def test_warps_and_ctas_that_do_less_are_walked_too() -> None:
    body = "mov.u32 %r3, %ctaid.x; setp.ne.u32 %p1, %r3, 0; @%p1 ret; mov.u32 %r4, %tid.x; setp.gt.u32 %p2, %r4, 31;"
    body += "@%p2 ret;" + "add.u32 %r2, %r2, 1;" * 40
    found, ran = given(body, 1, grid=2, block=64)
    assert found.instructions == pytest.approx(ran, rel=0.1)


def test_failed_assertions_are_not_followed() -> None:
    """On either side of a branch that depends on memory; the rest of the kernel counts."""
    asked = "ld.global.u32 %r3, [%rd1]; setp.eq.u32 %p1, %r3, 0;"
    rest = "add.u32 %r2, %r2, 1;" * 60
    body = f"{asked} @%p1 bra FINE; bra.uni BAD; FINE: {asked} @!%p1 bra BAD; {rest} ret; BAD: pmevent 1; trap;"
    found, ran = given(body, 1)
    assert found.is_rough and found.instructions == pytest.approx(ran, rel=0.1)


def test_calls_are_walked() -> None:
    found, ran = given("call f;", 1)
    assert found.instructions == pytest.approx(ran, rel=0.1) and ran > 30


def test_what_depends_on_memory_is_rough_and_ends() -> None:
    body = "LOOP: ld.global.u32 %r3, [%rd1]; setp.eq.u32 %p1, %r3, 0; @%p1 bra DONE; bra LOOP; DONE:"
    found, _ = given(body, 1)
    assert found.is_rough and found.instructions < 20
    assert str(found).startswith("roughly ")


@pytest.mark.parametrize("name", ["matmul_fp16_s4", "layernorm_fwd", "tiled_matmul"])
def test_kernels_of_compilers_are_estimated_within_a_tenth(name: str) -> None:
    folder = KERNELS / name
    source = lt.ptx.load((folder / "kernel.ptx").read_text()).parsed
    before = folder / "before.npz"
    launch = read_launch(source.module, folder / "launch.json", before if before.exists() else None, None, None)
    work = Work()
    run_judged(source, launch.record, launch.expected, Settings(), Watch(work=work))
    assert estimate(source, launch.record).instructions == pytest.approx(work.instructions, rel=0.1)


def test_info_prints_the_estimate_of_a_launch(tmp_path: Path) -> None:
    folder = KERNELS / "vec_add"
    done = CliRunner().invoke(app, ["info", str(folder)])
    assert "estimate" in done.output and "about 528 warp instructions" in " ".join(done.output.split())
    found = json.loads(CliRunner().invoke(app, ["info", str(folder), "--json"]).output)
    assert found["estimate"]["instructions"] == 528
    alone = tmp_path / "kernel.ptx"
    alone.write_text((folder / "kernel.ptx").read_text())
    assert "estimate" not in CliRunner().invoke(app, ["info", str(alone)]).output


def test_large_estimates_are_in_words() -> None:
    assert str(Estimate(10**10, 2**34, False)) == "about 10,000,000,000 warp instructions, 28 hours, 16.0 GiB of memory"
    assert str(Estimate(6 * 10**7, 1, False)).split(", ")[1] == "10 minutes"
