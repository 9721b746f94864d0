"""Workspaces of launches: one for each stream and each captured graph, or the caller's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_arrays import FakeTorch, InterfaceArray, Tensor, aligned
from fake_driver import FakeDriver, Install
from sample_kernel import kernel_from, op, sample_manifest

from lowtide.errors import LaunchError, LoadError
from lowtide.runtime import Kernel, compile_host

_TYPES = ("ptr", "i64") * 3 + ("i32",) * 3 + ("ptr", "ptr")
_FLOATS, _COUNTERS = 128 * 128 * 4, 2 * 4  # bytes for 40×24×64: one tile, and a counter for each M of 20
_NEEDED = _FLOATS + 256


def manifest_of(*more: dict[str, Any]) -> dict[str, Any]:
    """The sample with partial sums of a tile for each CTA, and counters: its last two arguments."""
    manifest = sample_manifest(dtype="f16")
    *host, launch = manifest["host"]
    host += [
        op("arith.constant", ["c16384"], [], value=16384),
        op("arith.constant", ["c20"], [], value=20),
        op("arith.muli", ["elements"], ["ctas", "c16384"]),
        op("arith.divsi", ["counts"], ["m", "c20"]),
        op("tile.workspace", ["partials"], ["elements"], dtype="f32", zeroed=False),
        op("tile.workspace", ["counters"], ["counts"], dtype="s32", zeroed=True),
        *more,
    ]
    arguments = [{"value": name, "type": "ptr"} for name in ("partials", "counters")]
    attributes = {**launch["attributes"], "arguments": [*launch["attributes"]["arguments"], *arguments]}
    return {**manifest, "host": [*host, {**launch, "attributes": attributes}]}


@pytest.fixture
def fake(install_driver: Install) -> FakeDriver:
    return install_driver(FakeDriver(types=_TYPES))


def arrays(make: Callable[..., Any] = InterfaceArray, m: int = 40) -> tuple[Any, Any, Any]:
    return make(aligned(m, 64)), make(aligned(24, 64)), make(aligned(m, 24))


def kernel_of() -> Kernel:
    return kernel_from(manifest_of())


def test_calls_in_one_stream_share_a_workspace_and_others_have_their_own(fake: FakeDriver) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    for stream in (3, 3, 4):
        kernel(a, b, out=d, stream=stream)
    first, second, other = (x.values[-2:] for x in fake.launches)
    assert first == second and not {*first} & {*other}
    assert [x for x in fake.calls if x[0] == "zero"] == [("zero", first[1], 8, 3), ("zero", other[1], 8, 4)]


def test_a_larger_call_gets_a_larger_workspace_which_the_smaller_ones_then_use(fake: FakeDriver) -> None:
    kernel = kernel_of()
    for m in (40, 400, 60):
        a, b, d = arrays(m=m)
        kernel(a, b, out=d, stream=3)
    small, large, after = (x.values[-2:] for x in fake.launches)
    assert small != large == after


def test_a_workspace_is_freed_with_its_kernel(fake: FakeDriver) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    kernel(a, b, out=d, stream=3)
    assert len(fake.memory) == 2
    del kernel
    assert not fake.memory


def test_torch_allocates_the_workspace_in_the_launchs_stream(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel, (a, b, d) = kernel_of(), arrays(Tensor)
    kernel(a, b, out=d)
    kernel(a, b, out=d)
    kernel(a, b, out=d, stream=5)
    assert torch.allocated == [((_FLOATS,), 11), ((8,), 11), ((_FLOATS,), 5), ((8,), 5)]
    assert not fake.memory


def test_a_captured_graph_owns_its_workspaces_and_replays_without_zeroing_them(fake: FakeDriver) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    launch = kernel.bind(a, b, out=d, stream=3)
    launch()
    fake.calls.clear()
    fake.capturing = 1
    launch()
    launch()
    fake.capturing = 2
    launch()
    outside, first, again, other = (x.values[-2:] for x in fake.launches)
    assert first[1] == again[1] and len({outside[1], first[1], other[1]}) == 3
    assert not {*outside} & {*first, *again, *other}
    # Sums are the graph's own: allocated and freed in it. Counters are zeroed beside the capture, once for each graph.
    assert [x[0] for x in fake.calls] == [*("allocate", "zero", "free"), "allocate", "free", "allocate", "zero", "free"]
    assert {x[3] for x in fake.calls if x[0] == "zero"} == {99}


def test_the_counters_of_a_destroyed_graph_are_used_again_and_zeroed(fake: FakeDriver) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    for graph in (1, 2):
        fake.capturing = graph
        kernel(a, b, out=d, stream=3)
    fake.destroy_graph(1)
    fake.capturing = 3
    ctypes.memset(fake.launches[0].values[-1], 1, 8)
    kernel(a, b, out=d, stream=3)
    one, two, three = (x.values[-1] for x in fake.launches)
    assert one == three != two
    assert ctypes.string_at(three, 8) == bytes(8)


def test_without_memory_nothing_is_launched(fake: FakeDriver) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    fake.memory_error = 2
    with pytest.raises(
        LaunchError,
        match=rf"{_FLOATS} bytes .*CUDA_ERROR_2.*\[workspace-memory\]",
    ):
        kernel(a, b, out=d, stream=3)
    assert not fake.launches


def test_the_callers_workspace_is_used_and_zeroed_at_each_launch(fake: FakeDriver) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    assert kernel.workspace_bytes(a, b) == _NEEDED
    workspace = aligned(1, _NEEDED, np.uint8)
    workspace[:] = 1
    launch = kernel.bind(a, b, out=d, stream=3, workspace=InterfaceArray(workspace[0]))
    seen = []
    fake.kernel = lambda values: seen.append(ctypes.string_at(values[-1], 8))
    launch()
    launch()
    base = workspace.ctypes.data
    assert [x.values[-2:] for x in fake.launches] == [[base, base + _FLOATS]] * 2
    assert seen == [bytes(8)] * 2 and not fake.memory


def small(size: int, offset: int = 0, dtype: Any = np.uint8) -> InterfaceArray:
    return InterfaceArray(aligned(1, size, dtype, offset)[0])


@pytest.mark.parametrize(
    ("workspace", "message"),
    [
        (small(_NEEDED - 1), f"workspace= has {_NEEDED - 1} bytes, these operands need {_NEEDED}"),
        (small(_NEEDED, offset=16), f"must begin at a multiple of 256 bytes and have {_NEEDED} bytes"),
        (
            InterfaceArray(aligned(2, _NEEDED, np.uint8)[:, ::2]),
            r"must be one piece of memory.*\[workspace-contiguous\]",
        ),
        (
            Tensor(aligned(1, _NEEDED, np.float16), index=1),
            r"workspace= is on GPU 1, the operands are on GPU 0.*\[workspace-gpu\]",
        ),
        (
            InterfaceArray(aligned(1, _NEEDED, np.uint8), data=(4096, True)),
            r"workspace= is read-only.*\[workspace-read-only\]",
        ),
        (np.zeros(4), r"workspace.*numpy\.ndarray.*the CPU.*\[operand-on-gpu\]"),
    ],
)
def test_a_workspace_that_does_not_do_is_refused(
    fake: FakeDriver, torch: FakeTorch, workspace: Any, message: str
) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    with pytest.raises(LaunchError, match=message):
        kernel(a, b, out=d, stream=3, workspace=workspace)
    assert not fake.launches


def test_a_workspace_in_an_operand_is_refused(fake: FakeDriver) -> None:
    kernel, (a, b, _) = kernel_of(), arrays()
    whole = aligned(1, _NEEDED + 40 * 24 * 2, np.uint8)
    d = InterfaceArray(whole[0, _FLOATS : _FLOATS + 40 * 24 * 2].view(np.float16).reshape(40, 24))
    with pytest.raises(LaunchError, match=r"operand d.*\[workspace-overlaps\]"):
        kernel(a, b, out=d, stream=3, workspace=InterfaceArray(whole[0]))


def test_a_kernel_without_workspaces_needs_none(fake: FakeDriver) -> None:
    assert kernel_from(sample_manifest(dtype="f16")).workspace_bytes(*arrays()[:2]) == 0


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (op("tile.workspace", ["w"], ["m"], dtype="f33", zeroed=False), r"'dtype' is 'f33'.*\[host-program\]"),
        (op("tile.workspace", ["w"], ["m"], dtype="f32", zeroed=1), "zeroed is 1, must be true or false"),
        (op("tile.workspace", ["w"], ["pa"], dtype="f32", zeroed=True), r"depends on an address.*\[host-program\]"),
        (
            op("tile.workspace", ["w"], ["partials"], dtype="f32", zeroed=True),
            r"depends on an address.*\[host-program\]",
        ),
    ],
)
def test_an_ill_formed_workspace_is_refused_on_loading(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        compile_host(manifest_of(entry))


def test_a_workspace_of_less_than_nothing_is_refused(fake: FakeDriver) -> None:
    less = [op("arith.subi", ["less"], ["c0", "m"]), op("tile.workspace", ["w"], ["less"], dtype="f32", zeroed=False)]
    a, b, d = arrays()
    with pytest.raises(LaunchError, match=r"a workspace would have -40 elements.*\[workspace-elements\]"):
        kernel_from(manifest_of(*less))(a, b, out=d, stream=3)
