"""`record_triton`: a launch of Triton's launcher becomes files that run on a CPU, with the GPU's results."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes  # noqa: F401 - registers bfloat16
import numpy as np
import pytest
from recorder_fakes import CompiledKernel, CompiledKernel34, Tensor, fake_triton
from scaling import check, described

import lowtide as lt
from lowtide.errors import LaunchError

KERNELS = Path(__file__).parent / "kernels"
COUNT = 777  # elements
ADD = {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32", "BLOCK": "constexpr"}


@pytest.fixture(autouse=True)
def _triton(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_triton(monkeypatch)


def text(name: str) -> str:
    return (KERNELS / name / "kernel.ptx").read_text()


def adding(z: np.ndarray, x: np.ndarray, y: np.ndarray, **others: Any) -> CompiledKernel:
    """z = x + y by a GPU."""

    def work(*given: Any) -> None:
        z[:COUNT] = x[:COUNT] + y[:COUNT]

    return CompiledKernel("vec_add_k", text("vec_add"), ADD, work, **others)


def numbers(count: int = 1024) -> np.ndarray:
    return np.random.default_rng(count).integers(-9, 9, count).astype(np.float32)


@pytest.mark.parametrize("version", [CompiledKernel34, CompiledKernel])
def test_a_recorded_launch_gives_the_arrays_of_the_gpu(
    version: type[CompiledKernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, z = numbers(), numbers(), np.zeros(1024, np.float32)
    kernel = adding(z, x, y)
    kernel.__class__ = version
    monkeypatch.setattr(sys.modules["triton.compiler"], "CompiledKernel", version)
    with lt.ptx.record_triton(tmp_path) as folders:
        kernel.launch((4, 1, 1), Tensor(x), Tensor(y), Tensor(z), COUNT, 256)
        kernel.launch((4, 1, 1), Tensor(x), Tensor(y), Tensor(z), COUNT, 256)  # one of each kernel is recorded
    assert folders == [tmp_path / "vec_add_k"] and kernel.run == kernel._run
    assert ("__getattribute__" in vars(version)) is (version is CompiledKernel34)
    report = check(folders[0])
    assert (report["kind"], report["message"]) == ("ok", "no rule is broken; 1 array is as expected")
    assert not np.load(folders[0] / "before.npz")["z"].any() and [*np.load(folders[0] / "after.npz")] == ["z"]


def test_a_result_of_the_gpu_that_is_wrong_is_found(tmp_path: Path) -> None:
    x, y, z = numbers(), numbers(), np.zeros(1024, np.float32)
    kernel = adding(z, x, y + 1)
    with lt.ptx.record_triton(tmp_path, launches=2, kernel="vec_add_k") as folders:
        kernel.launch((4, 1, 1), Tensor(x), Tensor(y), Tensor(z), COUNT, 256)
        kernel.launch((4, 1, 1), Tensor(x), Tensor(y), Tensor(z), COUNT, 256)
    assert [each.name for each in folders] == ["vec_add_k", "vec_add_k-2"]
    assert {check(each)["kind"] for each in folders} == {"wrong-result"}


def test_an_array_that_is_too_small_is_out_of_bounds_unless_its_storage_counts(tmp_path: Path) -> None:
    x, y, z = numbers(), numbers(), np.zeros(1024, np.float32)
    arguments = Tensor(x[:700]), Tensor(y), Tensor(z), COUNT, 256
    for storage, kind in ((False, "out-of-bounds"), (True, "ok")):
        with lt.ptx.record_triton(tmp_path, storage=storage) as folders:
            adding(z, x, y).launch((4, 1, 1), *arguments)
        assert check(folders[0])["kind"] == kind


def test_views_of_one_tensor_keep_their_places(tmp_path: Path) -> None:
    """x and z overlap; y begins at a multiple of 4 bytes only."""
    held, y = np.zeros(2048, np.float32), numbers(1025)
    x, z = held[:1024], held[1000:]
    before = held.copy()
    with lt.ptx.record_triton(tmp_path) as folders:
        adding(z, x, y[1:]).launch((4, 1, 1), Tensor(x), Tensor(y[1:]), Tensor(z), COUNT, 256)
    launch = described(folders[0])
    assert launch["arrays"]["x+z"]["shape"] == [2048] and launch["params"][2]["offset_bytes"] == 4000
    assert launch["arrays"]["y"]["address_mod_256"] == y[1:].__array_interface__["data"][0] % 256
    assert np.array_equal(np.load(folders[0] / "before.npz")["x+z"], before)
    assert check(folders[0])["kind"] == "ok"


def test_a_launch_that_fails_leaves_what_was_before_it(tmp_path: Path) -> None:
    def work(*given: Any) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    x, y, z = numbers(), numbers(), np.zeros(700, np.float32)
    folder = tmp_path / "vec_add_k"
    folder.mkdir()
    (folder / "after.npz").write_bytes(b"of an earlier launch")
    with pytest.raises(RuntimeError), lt.ptx.record_triton(tmp_path):
        CompiledKernel("vec_add_k", text("vec_add"), ADD, work).launch(
            (4, 1, 1), Tensor(x), Tensor(y), Tensor(z), COUNT, 256
        )
    assert sorted(each.name for each in folder.iterdir()) == ["before.npz", "kernel.ptx", "launch.json"]
    assert check(folder)["kind"] == "out-of-bounds"


def descriptor(array: np.ndarray, box: list[int], wrap: Any = Tensor, **others: Any) -> Any:
    strides = [stride // array.itemsize for stride in array.strides]
    return SimpleNamespace(base=wrap(array), shape=list(array.shape), strides=strides, block_shape=box, **others)


TMA = {f"{name}_desc": "tensordesc<fp16[64, 64]>" for name in "abc"} | dict.fromkeys("mnk", "i32")
MADE = {"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": [64, 64], "fp4_padded": False}


def product(work: Any) -> tuple[CompiledKernel, dict[str, np.ndarray]]:
    arrays = dict(np.load(KERNELS / "matmul_tma_128b" / "before.npz"))
    others = {"shared": 40976, "tensordesc_meta": [MADE] * 3}
    return CompiledKernel("mm_tma_k", text("matmul_tma_128b"), TMA, lambda *given: work(arrays), **others), arrays


def test_tensor_descriptors_are_recorded_as_on_the_gpu(tmp_path: Path) -> None:
    def work(arrays: dict[str, np.ndarray]) -> None:
        arrays["c"][:] = np.load(KERNELS / "matmul_tma_128b" / "after.npz")["c"]

    kernel, arrays = product(work)
    boxes = [descriptor(arrays[name], [64, 64], padding="zero") for name in "abc"]
    with lt.ptx.record_triton(tmp_path) as folders:
        kernel.launch((2, 1, 1), *boxes, 128, 64, 128)
    found, wanted = described(folders[0]), described(KERNELS / "matmul_tma_128b")
    for one, other in zip(found["params"], wanted["params"], strict=True):
        if one["kind"] == "tensor_map":
            same = ("dims", "strides_bytes", "box", "element", "offset_bytes")
            assert [one[name] for name in same] == [other[name] for name in same]
            assert (one["array"], one["swizzle"]) == (f"{other['array']}_desc", 128)
        else:
            assert one["value"] == other.get("value", 0)
    report = check(folders[0])
    assert (report["kind"], report["message"]) == ("ok", "no rule is broken; 1 array is as expected")


def test_without_a_gpu_the_same_arguments_run() -> None:
    kernel, arrays = product(lambda given: None)
    launch = lt.ptx.launch_of_triton(kernel, 2, [*(descriptor(arrays[n], [64, 64], np.asarray) for n in "abc"), *SIDES])
    c = np.load(KERNELS / "matmul_tma_128b" / "after.npz")["c"]
    assert lt.ptx.load(kernel.asm["ptx"])[kernel.name].check(**launch, expect=[None, None, c]).ok


def test_without_a_gpu_an_array_stands_for_its_descriptor() -> None:
    kernel, arrays = product(lambda given: None)
    c = np.load(KERNELS / "matmul_tma_128b" / "after.npz")["c"]
    launch = lt.ptx.launch_of_triton(kernel, 2, [*(arrays[name] for name in "abc"), *SIDES])
    assert lt.ptx.load(kernel.asm["ptx"])[kernel.name].check(**launch, expect=[None, None, c]).ok
    unwritten = lt.ptx.Unwritten(arrays["c"].shape, arrays["c"].dtype)  # the kernel only writes it
    launch = lt.ptx.launch_of_triton(kernel, 2, [arrays["a"], arrays["b"], unwritten, *SIDES])
    assert lt.ptx.load(kernel.asm["ptx"])[kernel.name].check(**launch, expect=[None, None, c]).ok
    with pytest.raises(LaunchError, match=r"a_desc: int is no tensor descriptor; .*\[triton-descriptor\]"):
        lt.ptx.launch_of_triton(kernel, 2, [5, arrays["b"], arrays["c"], *SIDES])


def test_arrays_have_the_type_that_the_kernel_was_compiled_for() -> None:
    kernel, x = adding(X, X, X), np.zeros(1024)
    for good in (X, X.view(np.uint32)):
        lt.ptx.launch_of_triton(kernel, 4, [good, X, X, COUNT, None])
    with pytest.raises(
        LaunchError, match=r"y: an array of float64; the kernel was compiled for \*fp32 \[triton-element"
    ):
        lt.ptx.launch_of_triton(kernel, 4, [X, x, X, COUNT, None])


SIDES = (128, 64, 128)

FALSE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "triton-constant": ({"constants": {(4,): 256}}, {"BLOCK": 128}),
    "triton-multiple": ({"attrs": {(3,): [["tt.divisibility", 16]]}}, {"n": 1000}),
    "triton-value": ({}, {"n": 2.5}),
    "triton-value, a float": ({}, {"n": 1000.0}),
    "triton-value, too large": ({}, {"n": 2**31}),
    "triton-value, none": ({}, {"n": None}),
    "triton-value, an array": ({}, {"n": np.zeros(4)}),
    "triton-array": ({}, {"x": 4096}),
}


@pytest.mark.parametrize("what", FALSE)
def test_arguments_are_what_the_kernel_was_compiled_for(what: str) -> None:
    source, changed = FALSE[what]
    kernel, x = adding(*(np.zeros(1024, np.float32) for _ in range(3))), np.zeros(1024, np.float32)
    vars(kernel.src).update(source)
    given: dict[str, Any] = dict(zip(ADD, (x, x, x, 1024, None), strict=True))
    assert lt.ptx.launch_of_triton(kernel, 4, [*given.values()])["names"][:3] == ["x", "y", "z"]
    lt.ptx.launch_of_triton(kernel, 4, [*(given | {"BLOCK": 256}).values()])
    (name,) = changed
    with pytest.raises(LaunchError, match=rf"{name}: .* compiled .*\[{what.partition(',')[0]}\]"):
        lt.ptx.launch_of_triton(kernel, 4, [*(given | changed).values()])


def test_what_triton_takes_is_no_launch() -> None:
    kernel, args = adding(X, X, X), [X, X, X, COUNT, None]
    with pytest.raises(LaunchError, match=r"\[triton-grid\]"):
        lt.ptx.launch_of_triton(kernel, lambda meta: (4,), args)  # type: ignore[arg-type]
    with pytest.raises(LaunchError, match=r"NoneType is no compiled kernel.*\[triton-compiled\]"):
        lt.ptx.launch_of_triton(None, 4, args)


# A kernel of all types: it stores each parameter, and one is a pointer inside an array.
STORES = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry all(.param .u64 out, .param .f32 a, .param .align 2 .b8 b[2], .param .align 2 .b8 c[2], .param .u8 d,
 .param .u64 e, .param .u32 f, .param .u64 table, .param .u64 base, .param .u64 s0, .param .u64 s1, .param .u8 nan,
 .param .u32 n0, .param .u64 n1, .param .u64 scratch)
{
.reg .pred %p1; .reg .f32 %f<2>; .reg .b16 %h<4>; .reg .b32 %r<5>; .reg .b64 %rd<9>;
mov.u32 %r4, %tid.x;
setp.ne.u32 %p1, %r4, 0;
@%p1 bra DONE;
ld.param.u64 %rd1, [out];
ld.param.f32 %f1, [a];
st.global.f32 [%rd1], %f1;
ld.param.b16 %h1, [b];
st.global.b16 [%rd1+4], %h1;
ld.param.b16 %h2, [c];
st.global.b16 [%rd1+6], %h2;
ld.param.u8 %r1, [d];
st.global.b32 [%rd1+8], %r1;
ld.param.u32 %r2, [f];
st.global.b32 [%rd1+12], %r2;
ld.param.u64 %rd2, [e];
st.global.b64 [%rd1+16], %rd2;
ld.param.u64 %rd3, [table];
ld.global.b64 %rd4, [%rd3];
ld.global.b32 %r3, [%rd4+4];
st.global.b32 [%rd1+24], %r3;
ld.param.u64 %rd5, [scratch];
st.global.b32 [%rd5+60], %r3;
DONE:
ret;
}
"""
TYPES = {
    "out": "*i8",
    "a": "fp32",
    "b": "bf16",
    "c": "fp16",
    "one": "constexpr",
    "d": "u1",
    "pair": ("i64", "i32"),
    "table": "*i64",
    "box": "tensordesc<fp32[4]>",
}


def test_arguments_are_converted_as_by_the_launcher(tmp_path: Path) -> None:
    data, out = np.arange(4, dtype=np.int32), np.zeros(28, np.uint8)
    table = np.array([data.__array_interface__["data"][0]])
    box = SimpleNamespace(base=Tensor(np.zeros(4, np.float32)), shape=[4], strides=[1], padding="nan")

    def work(*given: Any) -> None:
        out[:4] = np.frombuffer(np.float32(-np.inf).tobytes(), np.uint8)
        out[4:8] = [0x80, 0x3F, 0, 0x38]  # bf16 is cut off, not rounded
        out[8:16].view(np.int32)[:] = 1, -7
        out[16:24].view(np.int64)[:] = 2**40
        out[24:].view(np.int32)[:] = 1

    kernel = CompiledKernel("all", STORES, TYPES, work, num_warps=1, global_scratch_size=64)
    with lt.ptx.record_triton(tmp_path, arrays={"data": Tensor(data)}) as folders:
        given = Tensor(out), float("-inf"), 1.0078124, 0.5, 1, True, (2**40, -7), Tensor(table), box
        kernel.launch((1, 1, 1), *given)
    launch = described(folders[0])
    assert launch["arrays"]["table"]["relocations"] == [{"at": 0, "target": "data", "target_offset_bytes": 0}]
    assert launch["params"][1]["value"] == "-inf" and launch["params"][9:13] == [
        {"kind": "scalar", "type": type, "value": value}
        for type, value in (("u64", 4), ("u64", 1), ("u8", 1), ("u32", 4))
    ]
    report = check(folders[0])
    assert (report["kind"], report["message"]) == ("ok", "no rule is broken; 1 array is as expected")


def test_arguments_that_a_kernel_has_no_parameters_for_are_left_out() -> None:
    box = descriptor(np.zeros(4, np.float32), [4], np.asarray, padding="zero")
    out, table = np.zeros(28, np.uint8), np.zeros(1, np.int64)
    kernel = CompiledKernel("all", STORES, TYPES, print, num_warps=2, num_ctas=2, global_scratch_size=64)
    launch = lt.ptx.launch_of_triton(kernel, (3, 2), [out, 0.25, 1.0, 0.5, 1, False, (8, 9), table, box])
    assert (launch["grid"], launch["block"], launch["cluster"]) == ((6, 2, 1), (64, 1, 1), (2, 1, 1))
    first, a, b, c, *others, scratch = launch["args"]
    assert (first is out, a, b.data.hex(), c.data.hex(), scratch.size) == (True, 0.25, "803f", "0038", 64 * 12)
    assert others == [False, 8, 9, table, box.base, 4, 1, False, 4, 1]
    report = lt.ptx.load(STORES)["all"].check(**launch, expect=[None, table, box.base])  # none for the scratch memory
    assert report.kind == "out-of-bounds"  # the pointer in the table is null


# What cannot be recorded ----------------------------------------------------------------------------------------------


class Opaque:
    """Memory that is of no library."""

    def __init__(self, array: np.ndarray) -> None:
        self.__cuda_array_interface__ = array.__array_interface__

    def data_ptr(self) -> int:
        return int(self.__cuda_array_interface__["data"][0])


X = np.zeros(1024, np.float32)
GIVEN = [Tensor(X), Tensor(X), Tensor(X), COUNT, 256]
BAD: dict[str, Any] = {
    "recorded-nothing": lambda kernel: None,
    "recorded-bytes": lambda kernel: kernel.launch((4, 1, 1), Tensor(np.zeros(2**20)), *GIVEN[1:]),
    "recorded-kernel": lambda kernel: setattr(kernel, "name", "other") or kernel.launch((4, 1, 1), *GIVEN),
    "recorded-tensor": lambda kernel: kernel.launch((4, 1, 1), *GIVEN),
    "triton-arguments": lambda kernel: kernel.launch((4, 1, 1), *GIVEN[:3]),
    "triton-parameters": lambda kernel: (
        kernel.src.signature.update(n="constexpr", x="constexpr", y="constexpr") or kernel.launch((4, 1, 1), *GIVEN)
    ),
    "triton-pointer": lambda kernel: kernel.launch((4, 1, 1), 4096, *GIVEN[1:]),
    "triton-scalar": lambda kernel: kernel.src.signature.update(n="fp64") or kernel.launch((4, 1, 1), *GIVEN),
    "triton-memory": lambda kernel: kernel.launch((4, 1, 1), Opaque(X), *GIVEN[1:]),
    "triton-ptx": lambda kernel: kernel.asm.clear() or kernel.launch((4, 1, 1), *GIVEN),
}


@pytest.mark.parametrize("code", BAD)
def test_what_cannot_be_recorded_is_refused_before_the_launch(code: str, tmp_path: Path) -> None:
    started: list[Any] = []
    kernel = CompiledKernel("vec_add_k", text("vec_add"), dict(ADD), lambda *given: started.append(given))
    arrays = {"table": 7} if code == "recorded-tensor" else None
    with (
        pytest.raises(LaunchError, match=rf"\[{code}\]"),
        lt.ptx.record_triton(tmp_path, arrays=arrays, most_bytes=2**20),
    ):
        BAD[code](kernel)
    assert not started and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "code"),
    [({"launches": 0}, "record-launches"), ({"arrays": [X]}, "record-arrays"), ({"rtol": -1}, "ptx-tolerance")],
)
def test_options_are_checked_before_the_block(options: dict[str, Any], code: str, tmp_path: Path) -> None:
    entered = []
    with pytest.raises(LaunchError, match=rf"\[{code}\]"), lt.ptx.record_triton(tmp_path, **options):
        entered.append(True)
    assert not entered


@pytest.mark.parametrize(
    ("change", "others", "code"),
    [
        ({}, {"padding": "nan"}, "recorded-map"),
        ({"swizzle": 5}, {}, "recorded-map"),
        ({"elem_type": 8}, {}, "recorded-map"),
        ({"is_im2col": True}, {}, "recorded-map"),
    ],
)
def test_a_tensor_map_that_is_not_interpreted_is_refused(change: Any, others: Any, code: str, tmp_path: Path) -> None:
    kernel, arrays = product(lambda given: None)
    kernel.metadata.tensordesc_meta = [MADE | change] * 3
    boxes = [descriptor(arrays[name], [64, 64], **others) for name in "abc"]
    with pytest.raises(LaunchError, match=rf"\[{code}\]"), lt.ptx.record_triton(tmp_path):
        kernel.launch((2, 1, 1), *boxes, *SIDES)
