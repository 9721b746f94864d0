"""Calls of torch tensors seen before: what is not done again, and all that must be seen when it changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_arrays import FakeTorch, InterfaceArray, OtherDevice, SimpleDevice, Tensor, aligned
from fake_driver import GEMM_TYPES, FakeDriver, Install
from sample_kernel import argument, kernel_from, sample_manifest

from lowtide.errors import LaunchError
from lowtide.runtime import Kernel
from lowtide.runtime import kernel as kernel_module
from lowtide.runtime.call_keys import CallKeys, Recent
from lowtide.runtime.plan import Apart

pytestmark = pytest.mark.usefixtures("torch")
M, N, K = 40, 24, 32


def kernel_of(*extra: dict[str, Any]) -> Kernel:
    return kernel_from(sample_manifest(*extra, dtype="f16"))


def arrays() -> tuple[Tensor, Tensor, Tensor]:
    return Tensor(aligned(M, K)), Tensor(aligned(N, K)), Tensor(aligned(M, N))


def test_a_known_call_makes_no_records_no_plan_and_no_arguments(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    kernel(a, b, out=d)

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("made again")

    for name in ("view", "make_plan", "check_layout"):
        monkeypatch.setattr(kernel_module, name, never)
    plan = next(iter(kernel._plans.values()))
    monkeypatch.setattr(type(plan), "prepare", never)
    assert kernel(a, b, out=d) is d
    assert fake.launches[1].values == fake.launches[0].values


def test_new_addresses_of_a_known_signature_make_no_records(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of()
    kernel(*arrays()[:2], out=arrays()[2])
    monkeypatch.delattr(kernel_module, "view")
    a, b, d = arrays()
    kernel(a, b, out=d)
    assert fake.launches[1].values[:6:2] == [x.array.ctypes.data for x in (a, b, d)]


def test_the_launch_of_a_known_call_runs_again_in_the_current_stream(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    assert kernel.known(a, b, out=d) == (None, None)
    kernel(a, b, out=d)
    launch, plan = kernel.known(a, b, out=d)
    other = arrays()[1]
    assert launch is not None and plan is not None and kernel.known(a, other, out=d) == (None, plan)
    assert kernel.known(InterfaceArray(a.array), b, out=d) == (None, None)
    torch.stream, fake.contexts[:] = 12, [5678]
    launch.again()
    assert fake.launches[1].values == fake.launches[0].values
    assert (fake.launches[1].stream, fake.launches[1].context) == (12, fake.launches[0].context)
    fake.launch_error = 701
    with pytest.raises(LaunchError, match=r"\[launch-failed\]"):
        launch.again()
    fake.launch_error = 0
    plan.prepare([x.data_ptr() for x in (a, other, d)]).again()
    assert fake.launches[-1].values[2] == other.data_ptr()


def resized(tensor: Tensor) -> None:
    tensor.shape = (tensor.shape[0] - 8, tensor.shape[1])


def with_other_rows(tensor: Tensor) -> None:
    tensor.array = np.lib.stride_tricks.as_strided(tensor.array, tensor.array.shape, (2 * K - 2, 2))


def of_other_type(tensor: Tensor) -> None:
    tensor.dtype = "torch.bfloat16"


def on_the_cpu(tensor: Tensor) -> None:
    tensor.device = SimpleDevice("cpu", None)


def on_another_gpu(tensor: Tensor) -> None:
    tensor.device = OtherDevice("cuda", 1)


def misaligned(tensor: Tensor) -> None:
    tensor.array = aligned(*tensor.array.shape, offset=8)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("a", resized, r"operand d.*\(40, 24\) makes m = 40, but a.*\(32, 32\).*\[extents-differ\]"),
        ("d", resized, r"operand d.*\(32, 24\) makes m = 32.*\[extents-differ\]"),
        ("b", with_other_rows, r"operand b: rows are 62.*\[rows-misaligned\]"),
        ("a", of_other_type, r"operand a.*bf16.*f16.*\[operand-dtype\]"),
        ("d", of_other_type, r"operand d.*bf16.*\[operand-dtype\]"),
        ("b", on_the_cpu, r"operand b.*torch\.Tensor.*the CPU.*\[operand-on-gpu\]"),
        ("d", on_another_gpu, r"operand d.*GPU 1, a.*GPU 0.*\[one-gpu\]"),
        ("a", misaligned, "operand a: base address .* must be a multiple of 16"),
        ("d", misaligned, "operand d: base address"),
    ],
)
def test_a_tensor_changed_in_place_is_checked_anew(
    fake: FakeDriver, name: str, change: Callable[[Tensor], None], message: str
) -> None:
    kernel, tensors = kernel_of(), dict(zip("abd", arrays(), strict=True))
    for _ in range(2):
        kernel(tensors["a"], tensors["b"], out=tensors["d"])
    change(tensors[name])
    with pytest.raises(LaunchError, match=message):
        kernel(tensors["a"], tensors["b"], out=tensors["d"])
    assert len(fake.launches) == 2


def test_other_rows_at_the_same_addresses_are_seen(fake: FakeDriver) -> None:
    kernel, (_, b, d) = kernel_of(), arrays()
    whole, wide = aligned(M, 2 * K), Tensor(aligned(1, 1))
    wide.shape = (M, K)
    for rows in (2 * K, K, 2 * K):
        wide.array = np.lib.stride_tricks.as_strided(whole, (M, K), (2 * rows, 2))
        kernel(wide, b, out=d)
    assert [x.values[:2] for x in fake.launches] == [[whole.ctypes.data, rows] for rows in (2 * K, K, 2 * K)]


def test_an_output_moved_over_an_input_is_refused(fake: FakeDriver) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    for _ in range(2):
        kernel(a, b, out=d)
    d.array = a.array[:, :N]
    with pytest.raises(LaunchError, match=r"input a.*\[output-overlaps\]"):
        kernel(a, b, out=d)


def test_the_stream_is_read_or_taken_at_every_known_call(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    for current, given in ((11, None), (12, None), (12, 5), (12, 0), (11, None)):
        torch.stream = current
        kernel(a, b, out=d, stream=given)
    assert [x.stream for x in fake.launches] == [11, 12, 5, 0, 11]
    with pytest.raises(LaunchError, match=r"stream: str is not a CUDA stream.*\[stream-kind\]"):
        kernel(a, b, out=d, stream="0")


def test_a_known_call_in_another_context_is_loaded_and_launched_there(fake: FakeDriver) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    for context in (1234, 5678, 1234):
        fake.contexts[:] = [context]
        kernel(a, b, out=d)
        kernel(a, b, out=d)
    assert [x.context for x in fake.launches] == [1234, 1234, 5678, 5678, 1234, 1234]
    assert sum(call[0] == "load" for call in fake.calls) == 2


def test_a_known_call_without_a_current_context_enters_the_primary_one(fake: FakeDriver) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    for _ in range(3):
        kernel(a, b, out=d)
    assert [x.context for x in fake.launches] == [7000] * 3
    assert fake.contexts == []


def test_scalars_are_part_of_what_is_known_and_zeros_have_signs(install_driver: Install, torch: FakeTorch) -> None:
    fake = install_driver(FakeDriver(types=(*GEMM_TYPES, "bf16")))
    kernel, (a, b, d) = kernel_of(argument("alpha", "scalar", "bf16")), arrays()
    for alpha in (0.0, -0.0, 0.0, -0.0, 1, True, np.float32(1.0)):
        kernel(a, b, alpha=alpha, out=d)
    assert [x.values[-1] for x in fake.launches] == [0, 0x8000, 0, 0x8000, 0x3F80, 0x3F80, 0x3F80]


def test_tensors_by_name_and_by_position_are_the_same_call(fake: FakeDriver) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    kernel(a, b, out=d)
    known = dict(kernel._launches)
    kernel(a=a, b=b, out=d)
    kernel(a, b=b, out=d)
    assert dict(kernel._launches) == known
    assert [x.values for x in fake.launches[1:]] == [fake.launches[0].values] * 2


def test_known_shapes_still_get_an_output_of_their_own(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel = kernel_of()
    outputs = []
    for rows, stream in ((40, 11), (40, 12), (16, 12), (40, 12)):
        torch.stream = stream
        outputs.append(kernel(Tensor(aligned(rows, K)), Tensor(aligned(21, K))))
    assert [x.shape for x in outputs] == [(40, 21), (40, 21), (16, 21), (40, 21)]
    assert all(x.stride() == (24, 1) for x in outputs)
    assert torch.allocated == [((40, 24), 11), ((40, 24), 12), ((16, 24), 12), ((40, 24), 12)]
    assert len({id(x) for x in outputs}) == 4


def test_outputs_may_lie_between_two_matrices() -> None:
    apart = Apart(2, 100, 1, 1000, may_be=False, rows=None, two=(900, 100))
    assert [apart.overlaps(start, 0) for start in (0, 99, 100, 800, 801, 999, 1000)] == [
        *(True, True, False, False),
        *(True, True, False),
    ]


def test_other_libraries_arrays_are_never_known_by_key(fake: FakeDriver) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    kernel(a, b, out=d)
    c = InterfaceArray(a.array)
    kernel(c, b, out=d)
    c.__cuda_array_interface__["shape"] = (M - 8, K)
    with pytest.raises(LaunchError, match=r"makes m = 40, but a.*\[extents-differ\]"):
        kernel(c, b, out=d)


def test_a_driver_that_refuses_a_known_call_is_reported(fake: FakeDriver) -> None:
    kernel, (a, b, d) = kernel_of(), arrays()
    kernel(a, b, out=d)
    fake.launch_error = 701
    with pytest.raises(
        LaunchError, match=r"with grid \(1, 1, 1\) of \(128, 1, 1\) threads failed: CUDA_ERROR_701.*\[launch-failed\]"
    ):
        kernel(a, b, out=d)


def test_the_calls_kept_are_bounded_and_forgotten_ones_come_back(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_module, "_MOST_LAUNCHES", 8)
    kernel, (_, b, d) = kernel_of(), arrays()
    tensors = [Tensor(aligned(M, K)) for _ in range(20)]
    for a in (*tensors, *tensors):
        kernel(a, b, out=d)
    assert len(kernel._launches) + len(kernel._launches._old) <= 8
    assert [x.values[0] for x in fake.launches] == [x.array.ctypes.data for x in (*tensors, *tensors)]


def test_recent_entries_outlive_those_that_are_not_used() -> None:
    recent = Recent(8)
    for i in range(100):
        recent[i] = -i
        assert recent[i] == -i
        assert recent[0] == 0 or i == 0
        assert len(recent) + len(recent._old) <= 8
    assert recent[50] is None
    assert [recent[i] for i in (97, 98, 99)] == [-97, -98, -99]


def test_threads_share_what_is_recent() -> None:
    recent, wrong, barrier = Recent(16), [], threading.Barrier(4)

    def work(offset: int) -> None:
        barrier.wait()
        for i in range(3000):
            key = (i + offset) % 24
            found = recent[key]
            if found is None:
                recent[key] = found = key * key
            if found != key * key or len(recent) > 8:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_parts_of_a_key_are_taken_apart_as_they_were_put_together() -> None:
    arguments = [argument("a"), argument("b"), argument("alpha", "scalar", "f32"), argument("d", role="output")]
    keys = CallKeys(arguments, lambda: (0, 7000))
    a, b, d = arrays()
    key = keys.of([a, b, -2.5, d])
    assert keys.calls(key) == (a.data_ptr(), b.data_ptr(), -2.5, d.data_ptr())
    rest = [part for x in (a, b, d) for part in (x.shape, x.stride(), x.dtype, x.device)]
    assert keys.signature(key) == (7000, *rest)


def in_place_kernel(dtype: str = "f16") -> Kernel:
    return kernel_from(sample_manifest(argument("c", "full", dtype), dtype="f16"))


def test_the_output_may_be_a_full_operand(install_driver: Install, torch: FakeTorch) -> None:
    fake = install_driver(FakeDriver(types=(*GEMM_TYPES, "ptr")))
    kernel, (a, b, d) = in_place_kernel(), arrays()
    for _ in range(2):
        kernel(a, b, c=d, out=d)
    assert all(x.values[4] == x.values[9] for x in fake.launches)


def test_each_output_lies_apart_from_inputs_and_outputs(install_driver: Install, torch: FakeTorch) -> None:
    fake = install_driver(FakeDriver(types=(*GEMM_TYPES, "ptr", "ptr")))
    manifest = sample_manifest(argument("pre", "full", "f16", "output"), argument("c", "full", "f16"), dtype="f16")
    manifest["arguments"].sort(key=lambda entry: ["a", "b", "d", "pre", "c"].index(entry["name"]))
    kernel, (a, b, d), whole = kernel_from(manifest), arrays(), aligned(M, 2 * K)
    pre, c, wide = Tensor(aligned(M, N)), Tensor(aligned(M, N)), Tensor(whole[:, :K])
    kernel(a, b, c=d, out={"d": d, "pre": pre})
    for left, other, name in ((a, d, "output pre"), (wide, Tensor(whole[:, K : K + N]), "input a"), (a, c, "input c")):
        with pytest.raises(LaunchError, match=rf"the output overlaps {name},.*\[output-overlaps\]"):
            kernel(left, b, c=c, out={"d": d, "pre": other})
    assert len(fake.launches) == 1


def test_an_output_that_is_not_quite_the_operand_is_refused(install_driver: Install, torch: FakeTorch) -> None:
    fake = install_driver(FakeDriver(types=(*GEMM_TYPES, "ptr")))
    kernel, (a, b, _) = in_place_kernel(), arrays()
    whole = aligned(2 * M, 2 * N)
    c = Tensor(whole[:M, :N])
    for d in (whole[1 : M + 1, :N], whole[: 2 * M : 2, :N], whole[:M, 8 : N + 8]):
        with pytest.raises(LaunchError, match=r"input c, .*, or c itself, .*\[output-overlaps\]"):
            kernel(a, b, c=c, out=Tensor(d))
    wide = Tensor(aligned(M, N, dtype=np.float32))
    narrow = Tensor(wide.array.view(np.float16)[:, :N])
    with pytest.raises(LaunchError, match=r"input c, which .* allocated \[output-overlaps\]$"):
        in_place_kernel("f32")(a, b, c=wide, out=narrow)
    assert not fake.launches
