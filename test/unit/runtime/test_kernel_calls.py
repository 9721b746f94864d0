"""Calls of a kernel up to the driver: what is refused before anything is launched, and what the driver is given."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from fake_arrays import DLPackArray, FakeTorch, InterfaceArray, Tensor, aligned
from fake_driver import GEMM_TYPES, FakeDriver, Install
from sample_kernel import argument, cubin_of, kernel_from, sample_manifest

from lowtide.errors import DeviceError, LaunchError, LoadError
from lowtide.runtime import Kernel, Operand

M, N, K = 40, 24, 32


def kernel_of(*extra: dict[str, Any], **more: Any) -> Kernel:
    return kernel_from(sample_manifest(*extra, dtype="f16", **more))


def arrays(wrap: Any = InterfaceArray) -> tuple[Any, Any, Any]:
    return wrap(aligned(M, K)), wrap(aligned(N, K)), wrap(aligned(M, 32)[:, :N])


@pytest.mark.parametrize("wrap", [InterfaceArray, DLPackArray])
def test_the_driver_gets_grid_shared_memory_and_arguments(fake: FakeDriver, wrap: Any) -> None:
    a, b, d = arrays(wrap)
    assert kernel_of()(a, b, out=d) is d
    (launch,) = fake.launches
    assert launch.function == "gemm_kernel"
    assert launch.geometry == (1, 1, 1, 128, 1, 1, 49152)
    pointers = [x.array.ctypes.data for x in (a, b, d)]
    assert launch.values == [pointers[0], K, pointers[1], K, pointers[2], 32, M, N, K]
    assert launch.stream == 0
    assert launch.context == 7000
    assert ("attribute", "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 49152) in fake.calls


def test_torch_tensors_go_to_torchs_current_stream_and_are_not_viewed_twice(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel = kernel_of()
    for stream in (11, 12):
        torch.stream = stream
        a, b, d = arrays(Tensor)
        kernel(a, b, out=d)
        kernel(a, b, out=d)
    assert [x.stream for x in fake.launches] == [11, 11, 12, 12]
    assert fake.launches[2].values[0] == a.array.ctypes.data  # type: ignore[attr-defined]
    assert fake.launches[3].values == fake.launches[2].values
    assert sum(call[0] == "load" for call in fake.calls) == 1


def test_another_shape_after_the_first_gets_its_own_grid(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel = kernel_of()
    for rows in (40, 400, 40):
        kernel(Tensor(aligned(rows, K)), Tensor(aligned(N, K)), out=Tensor(aligned(rows, N)))
    assert [x.geometry[0] for x in fake.launches] == [1, 4, 1]
    assert [x.values[6] for x in fake.launches] == [40, 400, 40]


def test_a_known_signature_is_still_checked_for_alignment_and_overlap(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel, (a, b, d) = kernel_of(), arrays(Tensor)
    kernel(a, b, out=d)
    with pytest.raises(LaunchError, match=r"operand a: base address .* multiple of 16"):
        kernel(Tensor(aligned(M, K, offset=2)), b, out=d)
    whole = aligned(M, 2 * K)
    with pytest.raises(LaunchError, match=r"operand d: .*input a,.*\[output-overlaps\]"):
        kernel(Tensor(whole[:, :K]), b, out=Tensor(whole[:, K : K + N]))
    assert len(fake.launches) == 1


def test_the_output_is_allocated_with_aligned_rows_from_the_streams_pool(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel = kernel_of()
    a, b = Tensor(aligned(M, K)), Tensor(aligned(21, K))
    d = kernel(a, b)
    assert (d.shape, d.stride()) == ((M, 21), (24, 1))
    kernel(a, b, stream=5)
    assert torch.allocated == [((M, 24), 11), ((M, 24), 5)]
    assert fake.launches[1].stream == 5


def by_columns() -> dict[str, Any]:
    """The sample kernel as the compiler describes one whose D lies by columns."""
    manifest = sample_manifest(dtype="f16")
    manifest["spec"]["d_order"] = "column"
    return manifest


def test_an_output_by_columns_is_allocated_as_it_lies(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel = kernel_from(by_columns())
    d = kernel(Tensor(aligned(M, K)), Tensor(aligned(21, K)))
    assert (d.shape, d.stride()) == ((21, M), (M, 1))
    with pytest.raises(
        LaunchError, match=r"operand d.*\(40, 21\) makes n = 40, but b.*\(21, 32\).*it 21; d.*n, m.*\[extents-differ\]"
    ):
        kernel(Tensor(aligned(M, K)), Tensor(aligned(21, K)), out=Tensor(aligned(M, 24)[:, :21]))


def test_an_unknown_order_of_d_is_refused() -> None:
    manifest = by_columns()
    manifest["spec"]["d_order"] = "diagonal"
    with pytest.raises(LoadError, match=r"spec\.d_order is 'diagonal', must be one of row, column.*\[manifest-entry\]"):
        kernel_from(manifest)


def test_other_libraries_must_give_the_output(fake: FakeDriver) -> None:
    a, b, _ = arrays()
    with pytest.raises(
        LaunchError, match=r"pass out= with shape \(40, 24\), dtype f16 and rows of 24 elements.*\[output-library\]"
    ):
        kernel_of()(a, b)


def test_an_epilogues_operands_go_by_name(install_driver: Install) -> None:
    fake = install_driver(FakeDriver(types=(*GEMM_TYPES, "ptr", "f32")))
    kernel = kernel_of(argument("bias", "per_column", "f16", alignment=2), argument("alpha", "scalar", "f32"))
    a, b, d = arrays()
    bias = InterfaceArray(aligned(1, N, offset=2)[0])
    kernel(a, b, alpha=0.5, bias=bias, out=d)
    kernel(a=a, b=b, alpha=np.float32(0.25), bias=bias, out=d)
    assert [x.values[-2:] for x in fake.launches] == [[bias.array.ctypes.data, 0.5], [bias.array.ctypes.data, 0.25]]


def test_a_changed_scalar_is_seen_on_the_fast_path(install_driver: Install, torch: FakeTorch) -> None:
    fake = install_driver(FakeDriver(types=(*GEMM_TYPES, "bf16")))
    kernel, (a, b, d) = kernel_of(argument("alpha", "scalar", "bf16")), arrays(Tensor)
    for alpha in (1.0, -2.0):
        kernel(a, b, alpha=alpha, out=d)
    assert [x.values[-1] for x in fake.launches] == [0x3F80, 0xC000]
    with pytest.raises(LaunchError, match=r"operand alpha: Tensor is not a number.*\[scalar-kind\]"):
        kernel(a, b, alpha=a, out=d)


def test_a_bound_launch_repeats_with_the_same_arguments_and_follows_the_stream(
    fake: FakeDriver, torch: FakeTorch
) -> None:
    kernel, (a, b, d) = kernel_of(), arrays(Tensor)
    launch = kernel.bind(a, b, out=d)
    fixed = kernel.bind(a, b, out=d, stream=3)
    assert not fake.launches
    reads = a.reads
    for stream in (11, 12):
        torch.stream = stream
        assert launch() is d
    fixed()
    assert [x.stream for x in fake.launches] == [11, 12, 3]
    assert fake.launches[0].values == fake.launches[1].values == fake.launches[2].values
    assert a.reads == reads


def test_a_bound_launch_keeps_its_operands_alive(fake: FakeDriver) -> None:
    freed: list[str] = []

    class Watched(InterfaceArray):
        def __del__(self) -> None:
            freed.append("gone")

    launch = kernel_of().bind(*arrays(Watched)[:2], out=arrays(Watched)[2])
    assert len(freed) == 3  # the six arrays made, less the three bound
    launch()
    del launch
    assert len(freed) == 6


def test_a_launch_from_another_context_enters_its_own_and_leaves_it(fake: FakeDriver) -> None:
    launch = kernel_of().bind(*arrays()[:2], out=arrays()[2])
    launch()
    fake.contexts.append(1234)
    launch()
    assert [x.context for x in fake.launches] == [7000, 7000]
    assert fake.contexts == [1234]


def test_the_current_context_is_used_where_it_is_on_the_operands_gpu(fake: FakeDriver) -> None:
    fake.contexts.append(1234)
    kernel = kernel_of()
    a, b, d = arrays()
    kernel(a, b, out=d)
    fake.contexts[:] = [5678]
    kernel(a, b, out=d)
    assert [x.context for x in fake.launches] == [1234, 5678]
    assert sum(call[0] == "load" for call in fake.calls) == 2


def test_threads_do_not_share_argument_memory(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel = kernel_of()
    operands = [arrays(Tensor) for _ in range(4)]
    wrong: list[Any] = []
    barrier = threading.Barrier(4)
    seen = threading.local()

    def check(values: list[Any]) -> None:
        if values[0] != seen.address:
            wrong.append(values)

    fake.kernel = check

    def work(index: int) -> None:
        a, b, d = operands[index]
        seen.address = a.array.ctypes.data
        barrier.wait()
        for _ in range(200):
            kernel(a, b, out=d)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(fake.launches) == 800
    assert sum(call[0] == "load" for call in fake.calls) == 1


def test_the_launch_waits_for_the_stream_that_an_array_names(fake: FakeDriver) -> None:
    a, b, d = arrays()
    a.__cuda_array_interface__["stream"] = 21
    kernel_of()(a, b, out=d)
    assert fake.launches[-1].stream == 21
    assert ("record", 21) not in fake.calls
    kernel_of()(a, b, out=d, stream=22)
    assert fake.calls[-2:] == [("record", 21), ("wait", 22)]
    a.__cuda_array_interface__["stream"] = 1
    kernel_of()(a, b, out=d, stream=0)
    assert ("record", 1) not in fake.calls


def refusals() -> list[Any]:
    def case(name: str, message: str, **change: Any) -> Any:
        return pytest.param(change, message, id=name)

    half = np.float16
    return [
        case(
            "dtype",
            r"operand a: dtype is f32, the kernel was compiled for f16.*\[operand-dtype\]",
            a=aligned(M, K, np.float32),
        ),
        case("rank", r"operand b.*\(24,\).*rank 1.*rank 2.*\[operand-rank\]", b=aligned(1, N)[0]),
        case(
            "disagree",
            r"operand b.*\(24, 16\) makes k = 16, but a.*\(40, 32\).*it 32.*\[extents-differ\]",
            b=aligned(N, 16),
        ),
        case(
            "output shape",
            r"operand d.*\(24, 40\) makes m = 24, but a.*\(40, 32\).*it 40; d.*m, n.*\[extents-differ\]",
            d=aligned(N, M),
        ),
        case("inner stride", r"last dimension has stride 40.*\[last-stride\]", a=aligned(K, M).T),
        case("negative", r"\[negative-strides\]", a=aligned(M, K)[::-1]),
        case(
            "base",
            "operand a: base address .* slice that starts at a multiple of 8 elements",
            a=aligned(M, K, offset=2),
        ),
        case(
            "row stride", "operand a: rows are 66 bytes apart, .* pad each row to 40 elements", a=aligned(M, 33)[:, :K]
        ),
        case("empty", r"operand d.*\(40, 24\) makes m = 40, but a.*\(0, 32\).*\[extents-differ\]", a=aligned(1, K)[:0]),
        case(
            "overlapping rows",
            r"rows of 24 elements overlap at row stride 0.*\[rows-apart\]",
            d=np.lib.stride_tricks.as_strided(aligned(1, N), (M, N), (0, half().itemsize)),
        ),
        case(
            "host memory", r"operand b: this numpy.ndarray is on the CPU.*\[operand-on-gpu\]", b=np.zeros((N, K), half)
        ),
        case("absurd", r"extent 0 of shape.*\[extent-range\]", a=Operand(256, (2**31, K), (K, 1), "f16", 0)),
        case(
            "other GPU", r"operand b is on GPU 1, a is on GPU 0.*\[one-gpu\]", b=Operand(256, (N, K), (K, 1), "f16", 1)
        ),
        case(
            "read-only",
            r"the output is read-only.*\[output-read-only\]",
            d=Operand(256, (M, N), (N, 1), "f16", 0, read_only=True),
        ),
        case("null", "operand a: base address 0x0", a=Operand(0, (M, K), (K, 1), "f16", 0)),
    ]


@pytest.mark.parametrize(("change", "message"), refusals())
def test_operands_that_do_not_fit_are_refused_before_a_launch(fake: FakeDriver, change: Any, message: str) -> None:
    values = {"a": aligned(M, K), "b": aligned(N, K), "d": aligned(M, N), **change}
    wrapped = {
        name: x if isinstance(x, Operand) or ("on the CPU" in message and name in change) else InterfaceArray(x)
        for name, x in values.items()
    }
    with pytest.raises(LaunchError, match=message):
        kernel_of()(wrapped["a"], wrapped["b"], out=wrapped["d"])
    assert not fake.launches


def test_the_stride_over_an_extent_of_one_is_not_looked_at(fake: FakeDriver) -> None:
    one = np.lib.stride_tricks.as_strided
    a, b = one(aligned(1, K), (1, 1), (6, 10)), one(aligned(N, 16), (N, 1), (32, 6))
    kernel_of()(InterfaceArray(a), InterfaceArray(b), out=InterfaceArray(one(aligned(1, N), (1, N), (2, 2))))
    assert fake.launches[0].values[1:6:2] == [8, 16, 24]


def test_compiled_extents_are_checked(fake: FakeDriver) -> None:
    manifest = sample_manifest(dtype="f16")
    manifest["arguments"][0]["shape"] = [None, 64]
    a, b, d = arrays()
    with pytest.raises(LaunchError, match=r"is 32.*for 64.*\[operand-extent\]"):
        kernel_from(manifest)(a, b, out=d)


@pytest.mark.parametrize(
    ("positional", "named", "message"),
    [
        (1, {}, r"operand b is missing; it takes a, b, bias.*\[operand-not-given\]"),
        (2, {}, r"bias.*\[operand-not-given\]"),
        (4, {}, r"\[operand-count\]"),
        (2, {"a": 1}, r"operand a is given twice.*\[operand-twice\]"),
        (2, {"bais": 1}, r"unknown operand 'bais'; the operands are a, b, bias.*\[operand-unknown\]"),
        (2, {"d": 1}, r"d is the output; pass it as out=.*\[output-by-position\]"),
    ],
)
def test_names_that_do_not_fit_are_refused(positional: int, named: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        kernel_of(argument("bias", "per_row", "f16"))(*[arrays()[0]] * positional, **named)


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("s32", 1.5, r"not an integer.*\[scalar-range\]"),
        ("s32", 2**31, r"\[scalar-range\]"),
        ("f32", "1", r"\[scalar-kind\]"),
    ],
)
def test_scalars_that_do_not_fit_are_refused(fake: FakeDriver, dtype: str, value: Any, message: str) -> None:
    a, b, d = arrays()
    with pytest.raises(LaunchError, match=message):
        kernel_of(argument("alpha", "scalar", dtype))(a, b, alpha=value, out=d)


@pytest.mark.parametrize(("dtype", "value"), [("f32", 1e300), ("f16", 7e4), ("bf16", 1e39)])
def test_a_scalar_past_its_type_is_refused_and_an_infinite_one_is_not(
    install_driver: Install, dtype: str, value: float
) -> None:
    fake = install_driver(FakeDriver(types=(*GEMM_TYPES, dtype)))
    kernel, (a, b, d) = kernel_of(argument("alpha", "scalar", dtype)), arrays()
    with pytest.raises(LaunchError, match=rf": {dtype}.* do not fit their types.*\[argument-fits\]"):
        kernel(a, b, alpha=value, out=d)
    kernel(a, b, alpha=float("inf"), out=d)
    assert len(fake.launches) == 1


def test_a_launch_that_the_driver_refuses_is_reported(fake: FakeDriver) -> None:
    fake.launch_error = 701
    a, b, d = arrays()
    with pytest.raises(
        LaunchError,
        match=r"launching kernel gemm with grid \(1, 1, 1\) of \(128, 1, 1\) threads failed.*\[launch-failed\]",
    ):
        kernel_of()(a, b, out=d)


@pytest.mark.parametrize(
    ("target", "capability", "cubin", "code"),
    [
        ("sm_80", (8, 0), True, b"\x7fELF"),
        ("sm_80", (8, 6), True, b"\x7fELF"),
        ("sm_86", (8, 0), True, None),
        ("sm_80", (9, 0), True, b".version"),
        ("sm_80", (8, 0), False, b".version"),
        ("sm_90", (8, 9), True, None),
        ("sm_90a", (9, 0), True, b"\x7fELF"),
        ("sm_90a", (10, 0), True, None),
        ("sm_90a", (8, 0), False, None),
        ("sm_100f", (10, 3), False, b".version"),
        ("sm_100f", (12, 0), False, None),
    ],
)
def test_the_code_that_runs_on_the_gpu_is_loaded_or_the_architecture_refused(
    install_driver: Install, target: str, capability: tuple[int, int], cubin: bool, code: bytes | None
) -> None:
    fake = install_driver(FakeDriver(capability, GEMM_TYPES))
    manifest = sample_manifest(dtype="f16", target=target)
    kernel = kernel_from(manifest, cubin_of(manifest) if cubin else None)
    a, b, d = arrays()
    if code is None:
        with pytest.raises(
            LoadError,
            match=rf"compiled for {target}, which runs on .*Fake GPU.*with a target of at most"
            r".*\[kernel-architecture\]",
        ):
            kernel(a, b, out=d)
        assert not fake.launches
    else:
        kernel(a, b, out=d)
        assert fake.calls[0][1].startswith(code)


def test_code_that_the_driver_refuses_is_reported_with_its_log(fake: FakeDriver) -> None:
    fake.load_error = 218
    a, b, d = arrays()
    with pytest.raises(LoadError, match=r"loading the ptx of kernel gemm on Fake GPU \(line 1: x\).*\[driver-failed\]"):
        kernel_of()(a, b, out=d)


def test_more_shared_memory_than_the_gpu_has_is_refused(fake: FakeDriver) -> None:
    fake.attributes["CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"] = 101376
    manifest = sample_manifest(dtype="f16")
    manifest["host"][-1]["attributes"]["shared_memory"] = 166912
    a, b, d = arrays()
    with pytest.raises(
        DeviceError, match=r"needs 166912 bytes of shared memory, Fake GPU has at most 101376 per CTA.*\[kernel-smem\]"
    ):
        kernel_from(manifest)(a, b, out=d)
