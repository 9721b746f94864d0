"""cuBLASLt by ctypes: what it is told and how its answers are read, against a library that only writes down."""

import ctypes
import struct
from typing import Any

import numpy as np
import pytest
from fake_cublaslt import NOT_SUPPORTED, FakeLibrary, get, put

from lowtide.errors import DeviceError
from lowtide.measurement.bench import cublaslt, cublaslt_library
from lowtide.measurement.bench.cublaslt import Description, Matmul, StoredMatrix, describe, name_of
from lowtide.measurement.bench.cublaslt_library import AlgorithmStruct, HeuristicResult, Library, Setting

DESCRIPTION = describe("bf16", "f32", "tn", 96, 64, 32, (40, 48, 72), "bf16")


def test_the_structs_have_the_sizes_and_offsets_of_the_header() -> None:
    assert ctypes.sizeof(cublaslt.AlgorithmStruct) == 64
    offsets = {name: getattr(HeuristicResult, name).offset for name in ("workspace_size", "state", "waves_count")}
    assert offsets == {"workspace_size": 64, "state": 72, "waves_count": 76}
    assert ctypes.sizeof(HeuristicResult) == 96


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_the_description_computes_the_product_that_the_letters_say(layout: str) -> None:
    m, n, k = 5, 3, 4
    rng = np.random.default_rng(0)
    logical_a, logical_b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    a = logical_a if layout[0] == "t" else logical_a.T
    b = logical_b.T if layout[1] == "n" else logical_b
    a, b = padded(a, 2), padded(b, 6)
    found = describe("f16", "f32", layout, m, n, k, (a.shape[1], b.shape[1], n + 1), "f16")

    def read(memory: np.ndarray, matrix: StoredMatrix, transposed: bool) -> np.ndarray:
        """Column-major: element (row, column) at row + column · leading."""
        flat = memory.ravel()
        index = np.arange(matrix.rows)[:, None] + matrix.leading * np.arange(matrix.columns)[None, :]
        return flat[index].T if transposed else flat[index]

    result = read(b, found.first, found.transpose_first) @ read(a, found.second, found.transpose_second)
    assert found.result == StoredMatrix(n, m, n + 1)
    assert np.array_equal(result.T, logical_a @ logical_b)


def padded(matrix: np.ndarray, by: int) -> np.ndarray:
    """Rows with padding that must not be read: a value that no sum survives."""
    return np.pad(matrix, ((0, 0), (0, by)), constant_values=10**6)


def test_a_tn_product_is_what_blas_calls_tn() -> None:
    expected = Description(
        dtype="bf16",
        acc="f32",
        d="bf16",
        first=StoredMatrix(32, 64, 48),
        second=StoredMatrix(32, 96, 40),
        result=StoredMatrix(64, 96, 72),
        transpose_first=True,
        transpose_second=False,
    )
    assert expected == DESCRIPTION


def test_sums_that_cublaslt_does_not_have_are_refused() -> None:
    with pytest.raises(DeviceError, match=r"cuBLASLt sums in f16, f32, f64, s32, not in bf16.*\[cublaslt-sums\]"):
        describe("bf16", "bf16", "tn", 8, 8, 8, (8, 8, 8), "bf16")


@pytest.mark.parametrize(
    ("dtype", "acc", "codes", "one"),
    [
        # CUBLAS_COMPUTE_16F, CUDA_R_16F; …32F, …32F; …64F, …64F: the types of the sums, and of alpha and beta.
        ("f16", "f16", [64, 2], struct.pack("<e", 1.0)),
        ("f16", "f32", [68, 0], struct.pack("<f", 1.0)),
        ("f32", "f32", [68, 0], struct.pack("<f", 1.0)),
        ("f64", "f64", [70, 1], struct.pack("<d", 1.0)),
        # CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F; …32I, CUDA_R_32I.
        ("tf32", "f32", [77, 0], struct.pack("<f", 1.0)),
        ("s8", "s32", [72, 10], struct.pack("<i", 1)),
    ],
)
def test_alpha_and_beta_have_the_type_of_the_sums(dtype: str, acc: str, codes: list[int], one: bytes) -> None:
    fake = FakeLibrary()
    d = "s32" if dtype == "s8" else dtype
    with Matmul(Library(fake), describe(dtype, acc, "tn", 96, 64, 32, (32, 32, 64), d), 4096) as matmul:
        matmul.launch(matmul.offers(4096)[0], a=256, b=512, d=768, stream=0)
    assert [argument.value for argument in fake.named("cublasLtMatmulDescCreate")[0][1:]] == codes
    launched = fake.named("cublasLtMatmul")[0]
    assert [bytes(launched[place]._obj) for place in (2, 7)] == [one, bytes(len(one))]


def test_the_descriptors_hold_types_transposes_extents_and_the_workspace() -> None:
    fake = FakeLibrary()
    with Matmul(Library(fake), DESCRIPTION, 4096):
        pass
    operation = fake.named("cublasLtMatmulDescCreate")[0]
    assert [argument.value for argument in operation[1:]] == [68, 0]  # CUBLAS_COMPUTE_32F, CUDA_R_32F
    attributes = {call[1].value: read_attribute(call) for call in fake.named("cublasLtMatmulDescSetAttribute")}
    assert attributes == {3: (1, 4), 4: (0, 4)}  # TRANSA = T, TRANSB = N: int32
    layouts = [tuple(argument.value for argument in call[1:]) for call in fake.named("cublasLtMatrixLayoutCreate")]
    assert layouts == [(14, 32, 64, 48), (14, 32, 96, 40), (14, 64, 96, 72)]


@pytest.mark.parametrize("is_fast", [True, False])
def test_fast_sums_of_8_bit_floats_are_an_attribute_of_a_byte(is_fast: bool) -> None:
    fake = FakeLibrary()
    given = describe("e4m3", "f32", "tn", 96, 64, 32, (32, 32, 64), "bf16", is_fast=is_fast)
    with Matmul(Library(fake), given, 4096):
        pass
    attributes = {call[1].value: read_attribute(call) for call in fake.named("cublasLtMatmulDescSetAttribute")}
    assert attributes.get(25) == ((1, 1) if is_fast else None)  # FAST_ACCUM: int8


def read_attribute(call: tuple[Any, ...]) -> tuple[int, int]:
    """(value, size in bytes) of a call of a SetAttribute function."""
    return call[2]._obj.value, call[3].value


def test_the_heuristic_is_asked_for_64_and_every_answer_is_kept() -> None:
    fake = FakeLibrary(answers=40)
    with Matmul(Library(fake), DESCRIPTION, 0) as matmul:
        algorithms = matmul.offers(2**20)
    call = fake.named("cublasLtMatmulAlgoGetHeuristic")[0]
    # handle, operation, A, B, C, D, preference, requested: C is described as D.
    assert [argument.value for argument in call[:8]] == [1, 2, 3, 4, 5, 5, 6, 64]
    preferences = {call[1].value: read_attribute(call) for call in fake.named("cublasLtMatmulPreferenceSetAttribute")}
    assert preferences == {0: (0, 4), 1: (2**20, 8)}  # SEARCH_MODE: best fit, uint32; MAX_WORKSPACE_BYTES: uint64
    assert [get(algorithm.struct, Setting.ID) for algorithm in algorithms] == list(range(40))
    assert algorithms[7].workspace_bytes == 7 * 1024


def test_within_an_id_every_result_is_handed_over_as_that_algorithm() -> None:
    class Within(FakeLibrary):
        def _answer(self, *arguments: Any) -> int:
            self.given = [get(result.algo, Setting.ID) for result in arguments[-2]]
            return super()._answer(*arguments)

    fake, struct = Within(), AlgorithmStruct()
    put(struct, Setting.ID, 66)
    with Matmul(Library(fake), DESCRIPTION, 0) as matmul:
        assert len(matmul.offers(4096, struct)) == 3
    assert fake.given == [66] * 64
    assert read_attribute(fake.named("cublasLtMatmulPreferenceSetAttribute")[0]) == (1, 4)  # LIMITED_BY_ALGO_ID


def test_answers_that_are_bad_or_double_are_left_out() -> None:
    class Odd(FakeLibrary):
        def _answer(self, *arguments: Any) -> int:
            super()._answer(*arguments)
            results = arguments[-2]
            results[1].state = NOT_SUPPORTED
            results[2].workspace_size = 4096 + 1
            put(results[4].algo, Setting.ID, 3)
            return cublaslt_library.SUCCESS

    with Matmul(Library(Odd(answers=5)), DESCRIPTION, 0) as matmul:
        assert [get(algorithm.struct, Setting.ID) for algorithm in matmul.offers(4096)] == [0, 3]


def test_a_heuristic_without_an_answer_gives_none() -> None:
    with Matmul(Library(FakeLibrary(refused=("cublasLtMatmulAlgoGetHeuristic",))), DESCRIPTION, 0) as matmul:
        assert matmul.offers(4096) == []


def test_settings_are_read_and_changed_at_their_own_sizes_and_the_original_stays() -> None:
    library, struct = Library(FakeLibrary()), AlgorithmStruct()
    changes = {setting: 10 + setting for setting in Setting if setting != Setting.ID}
    copy = library.changed(struct, changes)
    assert copy is not None
    assert library.settings(copy) == {Setting.ID: 0, **changes}
    assert bytes(struct) == bytes(64)


def test_a_setting_that_is_refused_gives_no_algorithm() -> None:
    library = Library(FakeLibrary(refused=("cublasLtMatmulAlgoConfigSetAttribute",)))
    assert library.changed(AlgorithmStruct(), {Setting.TILE: 20}) is None
    assert library.changed(AlgorithmStruct(), {}) is not None


def test_a_name_says_id_tile_and_stages_and_what_is_not_the_default() -> None:
    settings = dict.fromkeys(Setting, 0) | {Setting.ID: 66, Setting.TILE: 23, Setting.STAGES: 36, Setting.SPLIT_K: 1}
    assert name_of(settings) == "id 66, tile 128x256, stages 36"
    settings |= {Setting.CLUSTER: 3, Setting.SPLIT_K: 2, Setting.REDUCTION: 2, Setting.SWIZZLING: 1, Setting.CUSTOM: 4}
    assert name_of(settings) == (
        "id 66, tile 128x256, stages 36, cluster 2x1, split-K 2, reduction 2, swizzling 1, custom 4"
    )
    assert name_of({Setting.ID: 7, Setting.TILE: 9999, Setting.CLUSTER: 99}) == "id 7, tile 9999, cluster 99"


def test_a_failure_while_it_is_made_destroys_what_was_created() -> None:
    fake = FakeLibrary(refused=("cublasLtMatmulPreferenceCreate",))
    with pytest.raises(DeviceError, match=r"cublasLtMatmulPreferenceCreate failed.*\[cublaslt-failed\]"):
        Matmul(Library(fake), DESCRIPTION, 0)
    destroyed = [arguments[0].value for name, arguments in fake.calls if name.endswith("Destroy")]
    assert destroyed == [5, 4, 3, 2, 1]


def test_a_launch_passes_b_first_and_d_twice() -> None:
    fake = FakeLibrary()
    with Matmul(Library(fake), DESCRIPTION, 4096) as matmul:
        matmul.launch(matmul.offers(4096)[2], a=256, b=512, d=768, stream=99)
    call = fake.named("cublasLtMatmul")[0]
    values = [argument.value if hasattr(argument, "value") else argument._obj for argument in call]
    assert values[3] == 512 and values[5] == 256 and values[8] == values[10] == 768
    assert [values[i] for i in (0, 1, 4, 6, 9, 11)] == [1, 2, 3, 4, 5, 5]
    assert get(values[12], Setting.ID) == 2
    assert values[13:] == [4096, cublaslt.WORKSPACE_BYTES, 99]


def test_operands_that_are_less_aligned_than_was_said_are_refused() -> None:
    with (
        Matmul(Library(FakeLibrary()), DESCRIPTION, 0) as matmul,
        pytest.raises(DeviceError, match=r"multiples of 256 bytes.*\[cublaslt-alignment\]"),
    ):
        matmul.launch(matmul.offers(0)[0], a=256, b=512 + 16, d=768, stream=0)


@pytest.mark.parametrize(
    "name", ["cublasLtCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatmulAlgoGetIds", "cublasLtMatmul"]
)
def test_every_status_is_looked_at(name: str) -> None:
    with pytest.raises(DeviceError, match=rf"^{name} failed: CUBLAS_STATUS_NOT_SUPPORTED \(15\) \[cublaslt-failed\]$"):  # noqa: SIM117
        with Matmul(Library(FakeLibrary(refused=(name,))), DESCRIPTION, 0) as matmul:
            matmul.ids()
            matmul.launch(matmul.offers(0)[0], a=0, b=0, d=0, stream=0)


def test_a_machine_without_cublaslt_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublaslt_library, "_candidates", lambda: iter(["/no/such/libcublasLt.so.13"]))
    with pytest.raises(DeviceError, match=r"no libcublasLt here; install torch or nvidia-cublas.*\[no-cublaslt\]"):
        cublaslt_library.load()
