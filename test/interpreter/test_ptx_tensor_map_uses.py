"""Copies by tensor maps that kernels change: one after the other, by other CTAs, in later launches, and stores."""

import numpy as np
import pytest
from tensor_map_kernels import (
    ACQUIRE,
    COPIED,
    COPY,
    END,
    EXPECTED,
    GROUPED,
    HEADER,
    LOAD,
    X,
    Y,
    launched,
    replaced,
)  # fmt: skip

from lowtide.errors import InterpreterError
from lowtide.launches import Array

# Loads of two groups, each with the map changed for it ---------------------------------------------------------------

CHANGE = """@%p2 bra MADE{g};
@%p1 bra DONE{g};
{first}{address}
{rows}
DONE{g}:
{copy}
{acquire}
MADE{g}:
bar.sync 0;
"""
WAIT = "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;\n"


def of_group(g):
    """The change, the load and the wait for a group of rows: X, and then Y."""
    rows, first = replaced("global_dim", 8 - 2 * g, 1), "" if g else f"{COPIED}\n"
    address = replaced("global_address", f"%rd{g + 1}")
    change = CHANGE.format(g=g, first=first, address=address, rows=rows, copy=COPY, acquire=ACQUIRE)
    load, wait = LOAD[: LOAD.index("mov.u32 %r3")].split("LOADED:\n")
    names = {"LOADED": f"LOADED{g}", "AGAIN": f"AGAIN{g}", "[gate]": f"[gate+{8 * g}]", "[tile]": f"[tile+{1024 * g}]"}
    for name, other in names.items():
        load, wait = load.replace(name, other), wait.replace(name, other)
    return change, f"{load}LOADED{g}:\n", wait


def grouped(order):
    """Both groups, in this order of the steps."""
    (change, load, wait), (next_change, next_load, next_wait) = of_group(0), of_group(1)
    steps = {"c": change, "l": load, "w": wait, "C": next_change, "L": next_load, "W": next_wait, "b": WAIT}
    steps |= {"s": "bar.sync 0;\n"}
    kernel = HEADER.replace("gate[8]", "gate[16]").replace("tile[1024]", "tile[2048]")
    kernel = kernel.replace("[gate], 1;", "[gate], 1; mbarrier.init.shared.b64 [gate+8], 1;")
    addresses = LOAD[LOAD.index("mov.u32 %r3") :]
    sums = "".join(
        f"ld.shared.u32 %r5, [%r4+{at}]; ld.shared.u32 %r6, [%r4+{1024 + at}]; add.u32 %r5, %r5, %r6; "
        f"st.global.u32 [%rd6+{at}], %r5;\n"
        for at in range(0, 1024, 256)
    )
    return f"{kernel}{''.join(steps[step] for step in order)}{addresses}{sums}ret;\n}}\n"


# A copy is over when the phase of its mbarrier is known, or, as CUTLASS waits, its thread's bulk groups.
@pytest.mark.parametrize("order", ["clwCLW", "clwsCLW", "clbsCLwW"])
def test_a_map_is_changed_after_the_copies_that_read_it(order):
    np.testing.assert_array_equal(launched(grouped(order))["out"], X.reshape(-1) + EXPECTED)


@pytest.mark.parametrize("order", ["clsCLwW", "clCLwW"])
def test_a_change_while_a_copy_may_read_the_map_is_found(order):
    with pytest.raises(InterpreterError, match=r"`tensormap\.cp_fenceproxy.*cp\.async\.bulk\.tensor.*\[map-in-use\]"):
        launched(grouped(order))["out"]


# Other CTAs and launches ---------------------------------------------------------------------------------------------

# CTA 0 makes the map and sets a flag, and CTA 1 loads by it. The flag is the last word of `out`, of 257.
CTAS = """mov.u32 %r10, %ctaid.x; setp.eq.u32 %p3, %r10, 1;
@%p3 bra OTHER;
@%p2 bra END;
{make}
bar.warp.sync -1;
@%p1 bra END;
{set}.global.u32 [%rd4+1024], 1;
bra END;
OTHER:
@%p1 bra SEEN;
SPIN: {see}.global.u32 %r11, [%rd4+1024]; setp.eq.u32 %p3, %r11, 0; @%p3 bra SPIN;
{acquire}
SEEN:
bar.sync 0;
"""
PARTS = {"make": GROUPED, "set": "st.release.gpu", "see": "ld.acquire.gpu", "acquire": ACQUIRE}


def between_ctas(**parts):
    text = HEADER + CTAS.format(**PARTS | parts) + LOAD + END.replace("ret;", "END: ret;")
    flagged = Array("i32", (257,), (), np.zeros(257, "i4"))
    return launched(text, grid=2, out=flagged)["out"][:256]


FENCED = {"set": "st.relaxed.gpu", "see": "ld.relaxed.gpu"}  # the proxy fences order the flag's accesses


@pytest.mark.parametrize("parts", [{}, FENCED, {"acquire": ACQUIRE.replace("gpu", "sys")}])
def test_a_map_that_another_cta_has_made_is_used(parts):
    np.testing.assert_array_equal(between_ctas(**parts), EXPECTED)


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"acquire": ""}, "map-acquire"),
        ({**FENCED, "acquire": ""}, "global-race"),
        ({"make": GROUPED.replace("release.gpu", "release.cta")}, "map-release"),
        ({"acquire": ACQUIRE.replace("gpu", "cta")}, "map-release"),
        # the acquire of the CTA that made it does not count for another
        ({"make": GROUPED + ACQUIRE, "acquire": ""}, "map-acquire"),
    ],
)
def test_what_a_cta_lacks_to_use_the_map_of_another_is_found(parts, code):
    with pytest.raises(InterpreterError, match=rf"`cp\.async\.bulk\.tensor.*CTA 1 .*\[{code}\]"):
        between_ctas(**parts)


@pytest.mark.parametrize("acquire", [ACQUIRE, ""])
def test_a_map_that_an_earlier_launch_has_made_is_acquired(acquire):
    make = f"{HEADER}@%p2 bra MADE;\n{GROUPED}\nMADE: ret;\n}}\n"
    use = HEADER[HEADER.index(".visible") :].replace(".entry k", ".entry u")
    text = f"{make}{use}@%p2 bra SEEN;\n{acquire}\nSEEN: bar.sync 0;\n{LOAD}{END}"
    if acquire:
        np.testing.assert_array_equal(launched(text, "ku")["out"], EXPECTED)
        return
    with pytest.raises(InterpreterError, match=r"with no acquire fence in this CTA.*\[map-acquire\]"):
        launched(text, "ku")


# Stores --------------------------------------------------------------------------------------------------------------

# All threads fill the tile with 1, 2, …; thread 0 stores it to y by a map of elements of a type.
STORE = """cvt.rn.f32.u32 %f1, %r1; mov.u32 %r3, tile; add.u32 %r4, %r3, %r2;
st.shared.f32 [%r4], %f1; st.shared.f32 [%r4+256], %f1; st.shared.f32 [%r4+512], %f1; st.shared.f32 [%r4+768], %f1;
fence.proxy.async.shared::cta;
bar.sync 0;
@%p1 bra STORED;
{copy} [%rd3, {{0, 0}}], [tile];
cp.async.bulk.commit_group;
{wait}
STORED:
bar.warp.sync -1;
@%p2 bra END;
{again}
END: ret;
}}
"""
BY_STORE = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
BY_SUM = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group"


def stored(copy, wait="cp.async.bulk.wait_group.read 0;", again="", element=7):
    fields = GROUPED.replace("DONE:", replaced("elemtype", element) + "\nDONE:")
    kernel = HEADER.replace(".reg .pred", ".reg .f32 %f<3>; .reg .pred")
    text = f"{kernel}@%p2 bra MADE;\n{fields}\n{ACQUIRE}\nMADE:\nbar.sync 0;\n"
    text += STORE.format(copy=copy, wait=wait, again=again)
    return launched(text, y=Array("f32", Y.shape, (32,), Y.astype("f4")))["y"]


def test_stores_and_reductions_by_a_changed_map():
    tile = np.tile(np.arange(64, dtype="f4"), 3).reshape(6, 32)
    np.testing.assert_array_equal(stored(BY_STORE), tile)
    np.testing.assert_array_equal(stored(BY_STORE, element=2), tile)  # bits, as elements of u32
    np.testing.assert_array_equal(stored(BY_SUM), Y + tile)


AGAIN = f"@!%p1 {replaced('global_dim', 5, 1)}\n{COPY}"


def test_a_map_is_changed_after_the_stores_that_read_it():
    stored(BY_STORE, again=AGAIN)
    for copy in (BY_STORE, BY_SUM):
        with pytest.raises(InterpreterError, match=r"`tensormap\.cp_fenceproxy.*bulk_group.*\[map-in-use\]"):
            stored(copy, wait="cp.async.bulk.wait_group.read 1;", again=AGAIN)
