"""Which of cuBLASLt's algorithms are tried, in which order: against a library of a few configurable ids."""

from typing import Any

import pytest
from fake_cublaslt import FindingLibrary, get

from lowtide.errors import DeviceError
from lowtide.measurement.bench import cublaslt_search
from lowtide.measurement.bench.cublaslt import Algorithm, Matmul, describe
from lowtide.measurement.bench.cublaslt_library import AlgorithmStruct, Capability, Library, Setting
from lowtide.measurement.bench.cublaslt_search import Capabilities, Family, alternate, find, neighbours, sweep
from lowtide.measurement.bench.cublaslt_tiles import NUMBERS, SHAPES, tile_cost, tile_count, tile_name, transposed

DESCRIPTION = describe("bf16", "f32", "tn", 4096, 4096, 4096, (4096, 4096, 4096), "bf16")
T128X256, T256X128, T128X128, T64X64 = 23, 24, 20, 15
HOPPER = {
    Capability.TILES: (T64X64, T128X128, T128X256, T256X128),
    Capability.STAGES: (35, 36),
    Capability.SWIZZLING: (1,),
    Capability.SPLIT_K: (1,),
    Capability.REDUCTION_MASK: (7,),
    Capability.CUSTOM_MAX: (3,),
}
AMPERE = {Capability.TILES: (T64X64, T128X128), Capability.STAGES: (15, 16), Capability.CUSTOM_MAX: (0,)}
BEST = {Setting.ID: 66, Setting.TILE: T128X256, Setting.STAGES: 35, Setting.CLUSTER: 3}


def found(fake: FindingLibrary, description: Any = DESCRIPTION) -> tuple[Algorithm, ...]:
    with Matmul(Library(fake), description, 0) as matmul:
        return find(matmul, 132)


def hopper(**settings: int) -> Family:
    """The family of BEST, with other settings by name."""
    may = Capabilities(HOPPER[Capability.TILES], HOPPER[Capability.STAGES], True, True, 3)
    given = dict.fromkeys(Setting, 0) | {Setting.SPLIT_K: 1} | BEST | {Setting[name]: v for name, v in settings.items()}
    return Family(AlgorithmStruct(), given, may)


@pytest.mark.parametrize(
    ("number", "shape"),
    [
        (1, (8, 8)),
        (20, (128, 128)),
        (23, (128, 256)),
        (35, (256, 32)),
        (36, (8, 128)),
        (47, (16, 64)),
        (133, (72, 640)),
        (176, (128, 320)),
        (209, (192, 192)),
        (232, (256, 192)),
        (263, (384, 64)),
        (447, (128, 512)),
        (448, (192, 8)),
        (513, (256, 256)),
        (587, (512, 128)),
        (630, (768, 80)),
        (631, (256, 512)),
        (634, (512, 1024)),
    ],
)
def test_tiles_have_the_numbers_of_the_header(number: int, shape: tuple[int, int]) -> None:
    assert SHAPES[number] == shape
    assert NUMBERS[shape] == number


def test_every_tile_has_one_number() -> None:
    assert list(SHAPES) == list(range(1, 635))
    assert len(NUMBERS) == 634


def test_a_tile_is_named_by_its_shape_and_transposed_by_it() -> None:
    assert (tile_name(T128X256), tile_name(635)) == ("128x256", "635")
    assert (transposed(T128X256), transposed(T128X128), transposed(0)) == (T256X128, None, None)
    assert (tile_count(T128X256, 4096, 4097), tile_count(0, 4096, 4096)) == (32 * 17, 0)


def test_large_tiles_cost_least_for_large_results_and_small_ones_for_small() -> None:
    def cheapest(rows: int, columns: int) -> int:
        return min((T64X64, T128X128, T128X256, 0), key=lambda tile: tile_cost(tile, rows, columns, 132))

    assert (cheapest(8192, 8192), cheapest(512, 512)) == (T128X256, T64X64)


def test_sources_take_turns_until_all_are_exhausted() -> None:
    assert "".join(alternate(["abc", "", "d", "ef"])) == "adebfc"


def test_neighbours_differ_in_one_setting_and_every_kind_comes_in_turn() -> None:
    changes = list(neighbours(hopper()))
    assert changes[:6] == [
        {Setting.SWIZZLING: 1},
        {Setting.CLUSTER: 2},
        {Setting.TILE: T256X128},
        {Setting.STAGES: 36},
        {Setting.CUSTOM: 1},
        {Setting.CLUSTER: 4},
    ]
    assert all(len(change) == 1 for change in changes)
    assert {setting: value for change in changes for setting, value in change.items()}[Setting.CUSTOM] == 3


def test_an_id_that_names_no_cluster_is_given_none() -> None:
    one = hopper(CLUSTER=0)
    assert not [change for change in neighbours(one) if Setting.CLUSTER in change]
    assert not [changes for _, changes in sweep(one, DESCRIPTION.result, 132) if Setting.CLUSTER in changes]


def test_the_sweep_begins_with_the_cheapest_tile_and_the_bases_own_settings() -> None:
    changes = [changes for _, changes in sweep(hopper(TILE=T64X64), DESCRIPTION.result, 132)]
    assert changes[0] == {Setting.TILE: T128X256}
    # One step along each axis: swizzling last.
    assert changes[1:5] == [
        {Setting.TILE: T128X256, Setting.SWIZZLING: 1},
        {Setting.TILE: T128X256, Setting.CLUSTER: 2},
        {Setting.TILE: T128X256, Setting.STAGES: 36},
        {Setting.TILE: T256X128},
    ]
    assert len(changes) == 4 * 2 * 3 * 2


def test_k_is_split_where_tiles_are_fewer_than_multiprocessors() -> None:
    small = describe("bf16", "f32", "tn", 1024, 1024, 4096, (4096, 4096, 1024), "bf16").result
    split = [changes for _, changes in sweep(hopper(), small, 132) if Setting.SPLIT_K in changes]
    assert {(one[Setting.SPLIT_K], one[Setting.REDUCTION]) for one in split} == {(2, 2)}
    # 64x64 gives 256 tiles, the others 64 or fewer.
    assert T64X64 not in {one.get(Setting.TILE) for one in split}
    assert not [changes for _, changes in sweep(hopper(), DESCRIPTION.result, 132) if Setting.SPLIT_K in changes]


def test_a_base_that_splits_k_is_swept_without() -> None:
    changes = next(changes for _, changes in sweep(hopper(SPLIT_K=4, REDUCTION=1), DESCRIPTION.result, 132))
    assert changes == {Setting.SPLIT_K: 1, Setting.REDUCTION: 0}


def test_settings_that_the_library_does_not_know_are_not_set() -> None:
    one = hopper()
    old = {setting: value for setting, value in one.settings.items() if setting != Setting.CLUSTER}
    swept = sweep(Family(one.base, old, one.capabilities), DESCRIPTION.result, 132)
    assert not [changes for _, changes in swept if Setting.CLUSTER in changes]


def test_eight_answers_become_more_than_32_algorithms_without_a_double() -> None:
    best = [BEST | {Setting.CUSTOM: number} for number in range(4)] + [BEST | {Setting.STAGES: 36}] * 1
    fake = FindingLibrary({66: HOPPER, 6: AMPERE}, best, {6: [{Setting.ID: 6, Setting.TILE: T128X128}]})
    algorithms = found(fake)
    assert [get(one.struct, Setting.CUSTOM) for one in algorithms[:5]] == [0, 1, 2, 3, 0]
    assert algorithms[5].name == "id 6, tile 128x128, stages 0"
    assert 32 < len(algorithms) <= cublaslt_search.WITH_SWEEP
    assert len({one.name for one in algorithms}) == len(algorithms)


def test_both_the_leading_and_the_other_ids_are_swept_from_what_the_heuristic_answers() -> None:
    kinds = {66: HOPPER, 6: AMPERE, 7: AMPERE}
    names = [one.name for one in found(FindingLibrary(kinds, [BEST]))]
    assert "id 66, tile 256x128, stages 35, cluster 1x1" in names
    assert {"id 6, tile 128x128, stages 16", "id 7, tile 64x64, stages 15"} <= set(names)
    assert len(names) <= cublaslt_search.WITH_SWEEP


def test_what_does_not_check_out_is_left_out_and_checks_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublaslt_search, "CHECKS", 50)
    fake = FindingLibrary({66: HOPPER}, [BEST], unfit=lambda settings: settings[Setting.SWIZZLING] == 0)
    algorithms = found(fake)
    assert all(get(one.struct, Setting.SWIZZLING) for one in algorithms[1:])
    assert len(algorithms) > 1
    assert len(fake.named("cublasLtMatmulAlgoCheck")) == 50


def test_the_types_are_those_of_the_product() -> None:
    fake = FindingLibrary({66: HOPPER}, [BEST])
    found(fake)
    # Handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, and four times CUDA_R_16BF.
    types = [1, 68, 0, 14, 14, 14, 14]
    assert [value.value for value in fake.named("cublasLtMatmulAlgoGetIds")[0][:8]] == [*types, 1024]
    assert [value.value for value in fake.named("cublasLtMatmulAlgoInit")[0][:8]] == [*types, 66]


def test_the_list_is_the_same_each_time() -> None:
    kinds = {66: HOPPER, 6: AMPERE}
    first, second = ([one.name for one in found(FindingLibrary(kinds, [BEST]))] for _ in range(2))
    assert first == second


def test_no_answer_of_the_heuristic_is_an_error() -> None:
    with pytest.raises(DeviceError, match=r"offers no algorithm for this product.*\[cublaslt-algorithm\]"):
        found(FindingLibrary({66: HOPPER}, []))
