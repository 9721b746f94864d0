"""Where the first rows of a tile are stored early by default, and which schedules may not."""

import re

import pytest

import lowtide as lt
from lowtide.dialects.tile import EpilogueStart

FIRST = "epilogue.start = first_rows"
TALL = f"grid.tile = [256, 128], roles = cooperative(2), {FIRST}"


def chosen(m: int | None, n: int | None, k: int | None, schedule: str | None = None, **fields: object) -> lt.Schedule:
    given = {"a": "bf16", "b": "bf16", "d": "bf16"} | fields
    return lt.compile_gemm(lt.GemmSpec(m=m, n=n, k=k, **given), target="sm_90a", schedule=schedule).schedule


def biased(acc, bias: lt.PerColumn):
    return lt.relu(acc + bias)


def test_bare_sums_of_several_blocks_of_rows_are_stored_early() -> None:
    assert chosen(8192, 8192, 8192).epilogue.start is EpilogueStart.first_rows
    assert chosen(4096, 28672, 4096).epilogue.start is EpilogueStart.first_rows
    assert chosen(8192, 8192, 8192, "epilogue.start = all_sums").epilogue.start is EpilogueStart.all_sums


@pytest.mark.parametrize(
    ("extents", "fields"),
    [
        ((4096, 4096, 4096), {}),
        ((8192, 8192, None), {}),
        ((8192, 8192, 512), {}),
        ((16384, 16384, 16384), {}),
        ((8192, 8192, 8192), {"epilogue": biased}),
    ],
    ids=["one block", "K at run time", "few K steps", "waves in step", "an epilogue"],
)
def test_other_tiles_are_stored_after_all_sums(extents: tuple[int, int, int | None], fields: dict[str, object]) -> None:
    assert chosen(*extents, **fields).epilogue.start is None


def test_an_epilogue_may_be_stored_early_where_it_is_asked_for() -> None:
    kernel = lt.compile_gemm(
        lt.GemmSpec(m=8192, n=8192, k=8192, a="bf16", b="bf16", d="bf16", epilogue=biased),
        target="sm_90a",
        schedule=FIRST,
    )
    assert kernel.schedule.epilogue.start is EpilogueStart.first_rows
    assert kernel.assembly is not None and not kernel.assembly.spill_stores and not kernel.assembly.warnings


@pytest.mark.parametrize(
    ("schedule", "k", "fields", "message"),
    [
        (
            f"roles = pingpong(2), {FIRST}",
            512,
            {},
            r"a consumer of one instance; take all_sums \[start-turns\]",
        ),
        (
            f"roles = single, {FIRST}",
            512,
            {},
            r"a consumer of one instance; take all_sums \[start-turns\]",
        ),
        (
            f"epilogue.path = smem, {TALL}",
            512,
            {},
            r"stores by TMA, not by epilogue.path = smem.*take all_sums \[start-path\]",
        ),
        (
            TALL.replace("256", "128"),
            512,
            {},
            r"stores 128 rows, 64 for each consumer, of a tile that has more, not 128.*take all_sums \[start-rows\]",
        ),
        (
            f"{TALL}, k_division = tail(2)",
            512,
            {},
            r"goes with whole sums, not k_division = tail\(2\).*take all_sums \[start-divided\]",
        ),
        (TALL, None, {}, r"needs a K that is known, of two steps of 64 or more.*take all_sums \[start-steps\]"),
        (TALL, 64, {}, r"needs a K that is known, of two steps of 64 or more.*take all_sums \[start-steps\]"),
        (
            TALL.replace("128]", "96]"),
            512,
            {"a": "e4m3", "b": "e4m3"},
            r"needs a wgmma that adds up the sums itself.*take all_sums \[start-promoted\]",
        ),
        (
            f"{TALL}, a.pack = none",
            512,
            {"a": "tf32", "b": "tf32", "d": "f32", "layout": "nn"},
            r"reads A from shared memory; take all_sums \[start-promoted\]",
        ),
    ],
)
def test_schedules_that_cannot_are_refused(schedule: str, k: int | None, fields: dict[str, str], message: str) -> None:
    with pytest.raises(lt.ScheduleError, match=message):
        chosen(4096, 4096, k, schedule, **fields)
    late = chosen(4096, 4096, k, schedule.replace("first_rows", "all_sums"), **fields)
    assert late.epilogue.start is EpilogueStart.all_sums


@pytest.mark.parametrize(("given", "edited"), [("first_rows", "all_sums"), ("all_sums", "first_rows")])
def test_an_edited_field_takes_effect_before_loops_are_timed_and_is_refused_from_then_on(
    given: str, edited: str
) -> None:
    spec = lt.GemmSpec(m=512, n=512, k=256, a="bf16", b="bf16", d="bf16")
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=TALL.replace("first_rows", given))

    def again(level: str) -> str:
        text, count = re.subn(f"start = {given}", f"start = {edited}", str(kernel.levels[level]))
        assert count == 1
        return text

    assert lt.compile_ir(again("smem")).ptx != kernel.ptx
    for level in ("atoms", "epilogue"):
        with pytest.raises(
            lt.PassError, match=r"but the kernel's schedule says .*by epilogue\.start.*\[not-as-scheduled\]"
        ):
            lt.compile_ir(again(level))
