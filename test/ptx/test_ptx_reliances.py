"""What hardware is seen to forgive is named in the report, and refused if the check is strict; all else is refused."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.interpreter import Observers, run
from lowtide.interpreter.machine import reliances
from lowtide.launches import Array, Launch, LaunchRecord, Pointer

_LITMUS = str(Path(__file__).resolve().parents[2] / "benchmarks" / "litmus")
if _LITMUS not in sys.path:
    sys.path.append(_LITMUS)
from reliances import RELIED, ROW_BYTES, ROWS  # noqa: E402

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"
STRICT = lt.ptx.Settings(strict=True)

STORES = f"""{HEAD}.visible .entry k(.param .u64 x)
{{
{REGISTERS}.shared .align 4 .b8 kept[64];
ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 15; mov.u32 %r3, kept; shl.b32 %r4, %r2, 2;
add.s32 %r3, %r3, %r4; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;
STORE
ret;
}}
"""
STORED = {"shared": "st.shared.u32 [%r3], {};", "global": "st.global.u32 [%rd3], {};"}


@pytest.mark.parametrize("space", STORED)
def test_lanes_may_store_equal_values_to_the_same_bytes(space: str) -> None:
    """Lanes 0 and 16 store the same number, or their own."""
    x = [np.zeros(16, np.int32)]
    equal, own = (lt.ptx.load(STORES.replace("STORE", STORED[space].format(what)))["k"] for what in ("%r2", "%r1"))
    expect = [np.arange(16, dtype=np.int32)] if space == "global" else None
    report = equal.check(grid=1, block=32, args=x, expect=expect)
    assert (report.kind, [each.name for each in report.relies]) == ("ok", ["equal-stores"])
    assert equal.check(grid=1, block=32, args=x, settings=STRICT).kind == "race"
    assert own.check(grid=1, block=32, args=x).kind == "race"
    assert equal.check(grid=1, block=16, args=x).relies == ()
    assert own.check(grid=1, block=64, args=x).kind == "race"  # of two warps


def test_a_reliance_has_the_place_that_needs_it() -> None:
    relied, launch = reliances.Relied(), Launch("k", (1, 1, 1), (32, 1, 1), (Pointer("x"),))
    record = LaunchRecord({"x": Array("s32", (16,), (1,))}, (launch,))
    run(STORES.replace("STORE", STORED["global"].format("%r2")), record, observers=Observers(relied=relied))
    (place,) = relied.places.values()
    assert place.startswith("`st.global.u32 [%rd3], %r2;`") and "lane 16: " in place and "[lanes-store-equals]" in place


TWICE = f"""{HEAD}.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)
{{
{REGISTERS}.shared .align 128 .b8 tile[128]; .shared .align 8 .b8 gate[8];
mov.u32 %r1, tile; mov.u32 %r2, gate; ld.param.u64 %rd1, [out]; mov.u32 %r3, %tid.x; mov.b64 %rd2, map;
setp.ne.s32 %p1, %r3, 0; @%p1 bra FIRST;
mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd2, {{0, 0}}], [%r2];
FIRST:
bar.sync 0;
A: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra A;
and.b32 %r4, %r3, 31; shl.b32 %r4, %r4, 2; add.s32 %r5, %r1, %r4; ld.shared.u32 %r6, [%r5];
FENCE
BARRIER
@%p1 bra SECOND;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd2, {{0, 4}}], [%r2];
SECOND:
B: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 1; @!%p2 bra B;
ld.shared.u32 %r7, [%r5]; add.s32 %r6, %r6, %r7;
mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r6;
ret;
}}
"""


def twice(fence: str, barrier: str, settings: lt.ptx.Settings | None = None) -> lt.ptx.Report:
    x = np.arange(64, dtype=np.int32).reshape(8, 8)
    args = [lt.ptx.TensorMap(x, (4, 8)), np.zeros((8, 8), np.int32)]
    kernel = lt.ptx.load(TWICE.replace("FENCE", fence).replace("BARRIER", barrier))["k"]
    given = {"grid": 1, "block": 64, "args": args, "expect": [None, np.tile(x[:4] + x[4:], (2, 1))]}
    return kernel.check(**given, settings=settings or lt.ptx.Settings())


def test_bulk_copies_may_overwrite_what_was_read_before_without_a_proxy_fence() -> None:
    report = twice("", "bar.sync 0;")
    assert (report.kind, [each.name for each in report.relies]) == ("ok", ["reads-before-copies"])
    assert twice("", "bar.sync 0;", STRICT).code == "async-proxy-reads"
    fenced = twice("fence.proxy.async.shared::cta;", "bar.sync 0;")
    assert fenced.ok and not fenced.relies
    assert twice("fence.proxy.async.shared::cta;", "").kind == "race"


def test_bulk_copies_may_see_an_mbarrier_without_the_fence_after_its_initialisation() -> None:
    text = TWICE.replace(" fence.mbarrier_init.release.cluster;", "").replace("FENCE", "fence.proxy.async.shared::cta;")
    kernel = lt.ptx.load(text.replace("BARRIER", "bar.sync 0;"))["k"]
    args = [lt.ptx.TensorMap(np.arange(64, dtype=np.int32).reshape(8, 8), (4, 8)), np.zeros((8, 8), np.int32)]
    report = kernel.check(grid=1, block=64, args=args)
    assert (report.kind, [each.name for each in report.relies]) == ("ok", ["init-seen"])
    assert kernel.check(grid=1, block=64, args=args, settings=STRICT).code == "mbarrier-init-fence"


GATE = f"""{HEAD}.visible .entry k(.param .u64 out)
{{
{REGISTERS}.shared .align 8 .b8 gate[8]; mov.u32 %r1, gate; mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 0;
setp.eq.u32 %p2, %r2, 32; mov.u32 %r3, 7;
@%p1 mbarrier.init.shared::cta.b64 [%r1], 1;
BODY
END:
ret;
}}
"""
STORED_LATER = "bar.sync 0; @%p2 st.shared.u32 [%r1], %r3;"
ARRIVED = "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];"
AGAIN = "@%p1 mbarrier.init.shared::cta.b64 [%r1], 1;"
WAITED = "bar.sync 0; L: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], {}; @!%p3 bra L;"
# Instructions of two warps after thread 0 has initialised an mbarrier, and the verdict.
GATES = {
    "stored over": (STORED_LATER, "ok, relies on unused-mbarriers"),
    "stored over without a barrier": ("@%p2 st.shared.u32 [%r1], %r3;", "race"),
    "stored over and read": (f"{STORED_LATER} bar.sync 0; ld.shared.u32 %r4, [%r1];", "ok, relies on unused-mbarriers"),
    "half of it read": (
        f"{STORED_LATER} bar.sync 0; ld.shared.u32 %r4, [%r1+4]; ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], %r4;",
        "undefined",
    ),
    "used and stored over": (f"{ARRIVED} {STORED_LATER}", "undefined"),
    "stored over and used": (f"{STORED_LATER} {ARRIVED}", "undefined"),
    "initialised again": (f"{AGAIN} {ARRIVED}", "ok, relies on unused-mbarriers"),
    "initialised again by a thread that does not know": ("@%p2 mbarrier.init.shared::cta.b64 [%r1], 1;", "race"),
    "used and initialised again": (f"{ARRIVED} {AGAIN}", "undefined"),
    "asked for parity -2": (f"{ARRIVED} {WAITED.format(-2)}", "ok, relies on parity-bit"),
    "asked for parity 0": (f"{ARRIVED} {WAITED.format(0)}", "ok"),
    "asked for parity -1": (f"{ARRIVED} {ARRIVED} {WAITED.format(-1)}", "ok, relies on parity-bit"),
    "asked for a parity that does not come": (WAITED.format(-2), "deadlock"),
}


@pytest.mark.parametrize("what", GATES)
def test_mbarriers_need_only_what_hardware_needs(what: str) -> None:
    body, verdict = GATES[what]
    kernel = lt.ptx.load(GATE.replace("BODY", body))["k"]
    report = kernel.check(grid=1, block=64, args=[np.zeros(4, np.int32)])
    assert report.verdict == verdict, report.message
    if report.relies:
        assert kernel.check(grid=1, block=64, args=[np.zeros(4, np.int32)], settings=STRICT).status == 1


def test_the_page_lists_each_reliance() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "ptx.md").read_text(encoding="utf-8")
    known = [each for each in vars(reliances).values() if isinstance(each, reliances.Reliance)]
    assert len(known) >= 3 and [each.name for each in known if f"| `{each.name}` |" not in page] == []


@pytest.mark.parametrize("relied", RELIED, ids=lambda relied: f"{relied.name}{relied.of}")
def test_the_litmus_test_of_a_reliance_relies_on_it_alone(relied: Any) -> None:
    """So what a GPU shows with it (benchmarks/litmus/run_litmus.py) speaks of this rule. Its control breaks another."""
    rows = np.repeat(np.arange(1, ROWS + 1, dtype=np.int32), ROW_BYTES // 4)
    given = [rows, lt.ptx.Unwritten((1024,), np.int32), np.zeros(2, np.int32), 2]

    def check(text: str, strict: bool = False) -> lt.ptx.Report:
        settings = lt.ptx.Settings(strict=strict, orders=1)
        return lt.ptx.load(text)["test"].check(
            grid=2, block=relied.threads, args=given, expect=[None, None, given[2]], settings=settings
        )

    report = check(relied.kernel)
    assert (report.kind, [each.name for each in report.relies]) == ("ok", [relied.name])
    assert check(relied.kernel, strict=True).status == 1
    assert relied.control is None or check(relied.control).kind == "race"


def test_each_reliance_has_a_litmus_test() -> None:
    """Except for that of tensor maps, which these tests do not take: test/gpu/test_groups_of_k_gpu.py shows it."""
    found = {each.name for each in vars(reliances).values() if isinstance(each, reliances.Reliance)}
    assert found - {"wrapped-addresses"} == {each.name for each in RELIED}
