"""What a refusal advises is legal itself: a schedule that is refused, with the advice taken, compiles.

They fail where an advised N is rounded by `// 8 * 9` in place of `// 8 * 8`.
"""

import re
from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.compiler import attempts
from lowtide.compiler.compile import compile_gemm

pytestmark = pytest.mark.code_at_once

SPEC = lt.GemmSpec(m=512, n=512, k=4096, a="bf16", b="bf16", d="bf16")


def schedule(m: int, n: int, consumers: int) -> str:
    return f"grid.tile = [{m}, {n}], roles = cooperative({consumers}), atom = wgmma.m64n{n}k16"


def advised(message: str, m: int, n: int) -> tuple[int, int]:
    """(M, N) of the CTA tile that a message says to take, with the wgmma that is as wide."""
    if narrower := re.search(r"take N ≤ (\d+) in grid.tile and atom", message):
        return m, int(narrower[1])
    tile = re.search(r"take grid.tile = \[(\d+), (\d+)\].*atom = wgmma\.m64n(\d+)k16 goes with that tile", message)
    assert tile is not None, message
    assert tile[2] == tile[3]
    return int(tile[1]), int(tile[2])


def refusal(m: int, n: int, consumers: int) -> str:
    with pytest.raises(lt.ScheduleError) as caught:
        compile_gemm(SPEC, target="sm_90a", schedule=schedule(m, n, consumers))
    return str(caught.value)


@pytest.fixture
def no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """For advice that a rule gives, and that concerns no accumulators: ptxas decides nothing of it."""
    monkeypatch.setattr(attempts, "find_ptxas", lambda: None)


@pytest.mark.parametrize(
    ("m", "n", "consumers"), [(256, 256, 2), (128, 256, 1), (192, 256, 1), (256, 200, 2), (256, 256, 4)]
)
def test_the_tile_advised_for_too_many_accumulators_compiles_and_a_wider_one_does_not(m, n, consumers):
    rows, columns = advised(refusal(m, n, consumers), m, n)
    compile_gemm(SPEC, target="sm_90a", schedule=schedule(rows, columns, consumers))
    refusal(rows, columns + 8, consumers)


@pytest.mark.parametrize(
    ("layout", "given", "message", "advice"),
    [
        # A box of 512 rows would be refused whatever its N.
        (
            "tn",
            "grid.tile = [512, 64], roles = cooperative(4), cluster = [1, 1]",
            r"512.*256.*\[tma-box\]",
            "[256, 64]",
        ),
        ("tn", "roles = cooperative(9)", r"take at most roles = cooperative\(4\)", "roles = cooperative(4)"),
        ("tn", "roles = cooperative(7), cluster = [1, 1]", r"of at most cooperative\(4\)", "roles = cooperative(4)"),
        ("tn", "grid.tile = [2147483647, 64], k = 32", r"\[accumulators-per-sm\]", "[128, 256]"),
        (
            "tn",
            "grid.tile = [128, 100], k = 32, roles = single, atoms = [2, 2, 1]",
            r"grid.tile N = 100 .* nearest is 96",
            "[128, 96]",
        ),
        # N is contiguous in B: 72 columns would not be whole swizzled rows.
        ("nt", "grid.tile = [512, 80], roles = cooperative(4)", r"take grid.tile = \[512, 64\]", "[512, 64]"),
        ("nt", "roles = cooperative(8)", r"take at most roles = cooperative\(7\)", "roles = cooperative(7)"),
    ],
)
def test_what_a_refusal_advises_compiles(layout: str, given: str, message: str, advice: str) -> None:
    spec = replace(SPEC, layout=layout)
    with pytest.raises(lt.ScheduleError, match=message):
        compile_gemm(spec, target="sm_90a", schedule=given)
    changed = f"grid.tile = {advice}" if advice.startswith("[") else advice
    fields = lt.Schedule.parse(given).set(lt.Schedule.parse(changed).decided())
    compile_gemm(spec, target="sm_90a", schedule=fields)


BYTES = {"a": "s8", "b": "s8", "d": "s32"}


@pytest.mark.parametrize(
    ("target", "given", "message", "advice", "fields"),
    [
        ("sm_80", "a.load = once, prologue = once", "a.load = once needs a known M and K", "a.load = per_tile", {}),
        ("sm_80", "b.load = once", "a known K; take b.load = per_tile", "b.load = per_tile", {"n": 64}),
        ("sm_80", "b.load = once", "take prologue = once, or", "prologue = once", {"n": 64, "k": 256}),
        (
            "sm_80",
            "a.copy = ld.global.4, b.copy = ld.global.4, a.load = once",
            "outlives a work tile; take a.load = per_tile",
            "a.load = per_tile",
            {"m": 64, "k": 256},
        ),
        (
            "sm_90a",
            "roles = cooperative(2), b.load = once",
            "take b.load = per_tile",
            "b.load = per_tile",
            {"n": 64, "k": 256},
        ),
        (
            "sm_90a",
            "roles = cooperative(1), epilogue.path = direct, epilogue.buffers = 3",
            "take epilogue.buffers = 1",
            "epilogue.buffers = 1",
            {},
        ),
        ("sm_80", "b.padding = 4", r"take 8 \[padding-bytes\]$", "b.padding = 8", {}),
        (
            "sm_80",
            "grid.tile = [64, 64], b.stage = transposed",
            "take b.copy = staged.16 or b.stage",
            "b.copy = staged.16",
            BYTES,
        ),
        (
            "sm_80",
            "a.copy = staged.16, a.stage = transposed",
            "goes with rows of K, not s8 whose rows are of M or N; take as_loaded",
            "a.stage = as_loaded",
            {**BYTES, "layout": "nt"},
        ),
        (
            "sm_90a",
            "roles = single, b.stage = transposed",
            "one element of e4m3; take b.stage = as_loaded",
            "b.stage = as_loaded",
            {"a": "e4m3", "b": "e4m3", "d": "f32"},
        ),
        (
            "sm_90a",
            "grid.tile = [64, 8], roles = cooperative(1), k = 1024, stages = 2",
            "take a smaller k, or a smaller grid.tile",
            "k = 512",
            {},
        ),
    ],
)
@pytest.mark.usefixtures("no_machine_code")
def test_what_is_advised_of_copies_and_stages_compiles(target, given, message, advice, fields):
    spec = lt.GemmSpec(**{"a": "bf16", "b": "bf16", "d": "bf16", **fields})
    with pytest.raises(lt.ScheduleError) as caught:
        compile_gemm(spec, target=target, schedule=given)
    assert re.search(message, str(caught.value).splitlines()[0])
    fields = lt.Schedule.parse(given).set(lt.Schedule.parse(advice).decided())
    compile_gemm(spec, target=target, schedule=fields)


F64 = {"a": "f64", "b": "f64", "d": "f64"}
MMA_SYNC = "atom = mma.m16n8k16"
BY_ROLES = "roles = cooperative(2), atom = wgmma.m64n128k16"


@pytest.mark.usefixtures("no_machine_code")
@pytest.mark.parametrize(
    ("given", "otherwise"),
    [
        ("grid.cluster = [2, 1]", "grid.cluster = [1, 1]"),
        ("scheduler = persistent, tail = halves", "tail = whole"),
        ("scheduler = persistent, waves = synchronized", "waves = free"),
        ("epilogue.path = tma", "epilogue.path = smem"),
        ("k_order = serpentine", "k_order = forward"),
        ("registers = [40, 232]", "registers = [0, 0]"),
        ("a.copy = tma", "a.copy = cp.async.16"),
    ],
)
def test_what_goes_with_roles_is_advised_roles_only_where_wgmma_has_the_types(given: str, otherwise: str) -> None:
    f64, small, single = lt.GemmSpec(m=4096, n=4096, k=4096, **F64), "grid.tile = [64, 64]", "roles = single"
    value = otherwise if otherwise.startswith(("grid.cluster", "epilogue", "a.copy")) else otherwise.split(" = ")[1]
    without, by_roles = f"take {value}: sm_90a has no wgmma for these types", f"cooperative(2) with wgmma, or {value}"
    for spec, beside, advice in (
        (f64, f"{small}, {MMA_SYNC}", without),
        (f64, f"{small}, {single}", without),
        (SPEC, f"{small}, {MMA_SYNC}", by_roles),
        (SPEC, f"{small}, {single}", by_roles),
    ):
        fields = lt.Schedule.parse(f"{given}, {beside}")
        with pytest.raises(lt.ScheduleError) as caught:
            compile_gemm(spec, target="sm_90a", schedule=fields)
        assert advice in str(caught.value)
        if spec is f64 or single in beside:  # in bf16 the same schedule follows from the atom
            compile_gemm(spec, target="sm_90a", schedule=fields.set(lt.Schedule.parse(otherwise).decided()))
    roles = lt.Schedule.parse(f"{given}, grid.tile = [256, 128], {MMA_SYNC}").set(lt.Schedule.parse(BY_ROLES).decided())
    compile_gemm(SPEC, target="sm_90a", schedule=roles)


@pytest.mark.usefixtures("no_machine_code")
@pytest.mark.parametrize("spec", [SPEC, lt.GemmSpec(m=4096, n=4096, k=4096, **F64)], ids=["bf16", "f64"])
def test_mma_sync_has_a_producer_only_if_that_is_asked_for(spec: lt.GemmSpec) -> None:
    for roles, has_producer in (("roles = cooperative(2), ", True), ("roles = single, ", False), ("", False)):
        kernel = compile_gemm(spec, target="sm_90a", schedule=f"{roles}{MMA_SYNC}")
        assert kernel.schedule.agents.has_producer == has_producer
