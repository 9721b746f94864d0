"""`lt.grouped_matmul` and calls of kernels for groups of rows, on a driver of host memory."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from fake_arrays import FakeTorch, InterfaceArray, Tensor, aligned
from fake_driver import FakeDriver, Install

import lowtide as lt
from lowtide.compiler.matmul import grouped
from lowtide.compiler.matmul.grouped import GroupedMatmul
from lowtide.compiler.matmul.grouped_products import Grouped, padded_product_of, product_of
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.ptxas import BadCode
from lowtide.errors import LaunchError
from lowtide.runtime import Kernel
from lowtide.runtime.manifest import validate
from lowtide.runtime.operands import Operand, view

ROWS, N, K, GROUPS = 100, 24, 32, 3
TYPES = ("ptr", "i64", "i32", "ptr", "i64", "i64", "i32", "ptr", "i64", "i32", "ptr", "i32")


@cache
def saved() -> tuple[dict[str, Any], str]:
    """The manifest and the PTX of a kernel for any rows and any number of groups."""
    spec = lt.GemmSpec(n=N, k=K, groups=None, a="f16", b="f16", d="f16")
    kernel = lt.compile_gemm(spec, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")
    return kernel.manifest, kernel.ptx


def kernel_of() -> Kernel:
    return Kernel(*saved())


def matrices(count: int, rows: int, columns: int) -> np.ndarray:
    return aligned(count * rows, columns).reshape(count, rows, columns)


def arrays(wrap: Any = InterfaceArray, groups: int = GROUPS) -> dict[str, Any]:
    """A, B of (groups, N, K), the ends and D."""
    ends = np.arange(groups, dtype=np.int32)
    found = {"a": aligned(ROWS, K), "b": matrices(groups, N, K), "ends": ends, "out": aligned(ROWS, N)}
    return {name: wrap(array) for name, array in found.items()}


def biased(acc, bias: lt.PerColumn):
    return acc + bias


def test_a_bias_of_each_group_has_a_stride_and_a_shared_one_has_none(install_driver: Install, torch: FakeTorch) -> None:
    types = ("ptr", "i64", "i32", "ptr", "i64", "i64", "i32", "ptr", "i64", "i32", "ptr", "i64", "ptr", "i32")
    spec = lt.GemmSpec(n=N, k=K, groups=None, a="f16", b="f16", d="f16", epilogue=biased)
    compiled = lt.compile_gemm(spec, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")
    entry = next(each for each in compiled.manifest["arguments"] if each["name"] == "bias")
    assert (entry["shape"], entry["per_group"]) == ([None, N], True)
    kernel, found = Kernel(compiled.manifest, compiled.ptx), []
    for shape in ((GROUPS, N), (N,)):
        fake, given = install_driver(FakeDriver(types=types)), arrays()
        kernel(
            given["a"],
            given["b"],
            ends=given["ends"],
            bias=InterfaceArray(np.zeros(shape, np.float16)),
            out=given["out"],
        )
        found.append(fake.launches[-1].values[-3])
    assert found == [N, 0]
    wrong = [{**x, "per_group": True} if x["kind"] == "ends" else x for x in compiled.manifest["arguments"]]
    with pytest.raises(lt.LoadError, match=r"per_group is for B and for per_column, group_scale"):
        validate({**compiled.manifest, "arguments": wrong}, "kernel")


@pytest.fixture
def fake(install_driver: Install, torch: FakeTorch) -> FakeDriver:
    return install_driver(FakeDriver(types=TYPES))


def test_the_kernel_gets_the_ends_as_a_pointer(fake: FakeDriver) -> None:
    given = arrays()
    kernel_of()(given["a"], given["b"], ends=given["ends"], out=given["out"])
    (launch,) = fake.launches
    assert launch.values[-2:] == [view(given["ends"], "ends").address, GROUPS]
    assert launch.values[4:7] == [N * K, K, GROUPS]


@pytest.mark.parametrize(
    ("name", "array", "code"),
    [
        ("ends", np.zeros(GROUPS, np.int64), "operand-dtype"),
        ("ends", np.zeros(GROUPS + 1, np.int32), "extents-differ"),
        ("b", aligned(N, K), "operand-rank"),
    ],
)
def test_ends_and_matrices_that_do_not_fit_are_refused(fake: FakeDriver, name: str, array: Any, code: str) -> None:
    given = arrays() | {name: InterfaceArray(array)}
    with pytest.raises(LaunchError, match=rf"operand {name}.*\[{code}\]"):
        kernel_of()(given["a"], given["b"], ends=given["ends"], out=given["out"])
    assert not fake.launches


def test_a_manifest_says_groups_in_all_places_or_in_none() -> None:
    manifest, _ = saved()
    validate(manifest, "kernel")
    assert manifest["spec"]["row_groups"] is None
    one = [{**entry, "shape": entry["shape"][-2:]} for entry in manifest["arguments"]]
    for entry in one:
        entry.pop("per_group", None)
    with pytest.raises(lt.LoadError, match=r"with spec\.row_groups, and only then"):
        validate({**manifest, "arguments": one}, "kernel")


def record(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str = "bf16") -> Operand:
    return Operand(1 << 20, shape, strides, dtype, 0)


A, B = record((100, 32), (32, 1)), record((3, 32, 24), (768, 24, 1))
SCALES = record((3, 1, 48), (48, 48, 1))


def product(a: Operand = A, b: Operand = B) -> Grouped:
    return product_of(a, b, None, "sm_90a", None)


def test_b_lies_with_n_or_with_k_contiguous() -> None:
    assert product().layout == "tt"
    assert product(b=record((3, 32, 24), (768, 1, 32))).layout == "tn"
    assert (product().n, product().other, product().groups, product().types[2]) == (24, 32, 3, "bf16")


def test_pairs_of_columns_have_k_contiguous() -> None:
    by_k = product(b=record((3, 32, 24), (768, 1, 32)))
    assert by_k.of_pairs(None) is by_k
    found = by_k.of_pairs("interleaved")
    assert (found.n, found.pairs) == (12, "interleaved") and found != by_k
    spec = found._replace(epilogue=lt.swiglu).spec(None)
    assert (spec.b_shape, spec.d_shape, spec.pairs) == ((3, 24, 32), (None, 12), "interleaved")
    odd = product(b=record((3, 32, 23), (736, 1, 32)))
    for other in (product(), odd, product_of_k(record((40, 100), (1, 40)), record((100, 24), (24, 1)))):
        with pytest.raises(LaunchError, match=r"w\.mT for w .*\[grouped-pairs\]"):
            other.of_pairs("stacked")


def test_products_have_block_scales_or_packed_weights() -> None:
    bytes_ = replace(B, dtype="u8", strides=(768, 1, 32))
    found = product(b=bytes_).scaled_by(Options(weights="s4"), {"scales": SCALES, "zeros": SCALES})
    assert (found.n, found.types) == (48, ("bf16", "s4", "bf16"))
    spec = found.spec(None)
    assert (spec.b_shape, spec.group, spec.scales, spec.zero_points) == ((3, 24, 32), 32, "bf16", True)
    shapes = {each.name: each.shape(None, 48, 32) for each in spec.operands}
    assert shapes["scales"] == (1, 48)
    floats = replace(A, dtype="e4m3"), replace(B, dtype="e4m3", strides=(768, 1, 32))
    spec = product(*floats).scaled_by(Options(block_scales=lt.BlockScales()), {}).spec(100)
    assert (spec.block_scales, spec.d) == (lt.BlockScales(), "bf16")
    of_k = record((40, 100), (1, 40), "e4m3"), record((100, 24), (24, 1), "e4m3")
    spec = product_of_k(*of_k).scaled_by(Options(block_scales=lt.BlockScales(b=(1, 128))), {}).spec(None)
    assert {each.name: each.shape(40, 24, 300) for each in spec.operands if each.name != "ends"} == {
        "scale_a": (3, 40),
        "scale_b": (3, 24),
    }
    for b, options, scales, code in (
        (bytes_, Options(), SCALES, "packed-types"),
        (replace(bytes_, strides=(768, 24, 1)), Options(weights="s4"), SCALES, "packed-layout"),
        (bytes_, Options(weights="s8"), SCALES, "group-scales"),
    ):
        with pytest.raises(LaunchError, match=rf"\[{code}\]"):
            product(b=b).scaled_by(options, {"scales": scales})


def test_the_schedule_of_rows_at_an_index_is_for_the_number_of_rows_that_are_taken() -> None:
    found = product(a=record((7, 32), (32, 1))).at_indices(3 * 200, ("a_rows",))
    assert (found.a_rows, found.share) == (True, 256)
    assert found.spec(None).a_shape == (None, 32) and found.spec(600).d_shape == (600, 24)
    placed = found.at_indices(600, ("a_rows", "d_rows")).spec(600)
    assert (placed.a_shape, placed.d_shape) == ((None, 32), (None, 24))
    with pytest.raises(LaunchError, match=r"\[grouped-row-index\]"):
        product_of_k(record((40, 100), (1, 40)), record((100, 24), (24, 1))).at_indices(10, ("d_rows",))


def test_rows_at_an_index_give_the_rows_of_d(fake: FakeDriver, torch: FakeTorch) -> None:
    spec = lt.GemmSpec(n=N, k=K, a="f16", b="f16", d="f16", a_rows=True)
    compiled = lt.compile_gemm(spec, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")
    kernel = Kernel(compiled.manifest, compiled.ptx)
    a, b, index = aligned(5, K), aligned(N, K), np.zeros(ROWS, np.int32)
    views = {name: view(InterfaceArray(x), name) for name, x in (("a", a), ("b", b), ("a_rows", index))}
    layouts = kernel._check_layouts(views | {"d": view(InterfaceArray(aligned(ROWS, N)), "d")})
    _, extents = kernel._settled(layouts)
    assert (extents["m"], extents["rows_of_a"], kernel._output_shape(extents)) == (ROWS, 5, (ROWS, N))
    none = [x for x in compiled.manifest["arguments"] if x["kind"] != "a_rows"]
    with pytest.raises(lt.LoadError, match=r"with spec\.a_rows, and only then"):
        validate({**compiled.manifest, "arguments": none}, "kernel")


def product_of_k(a: Operand, b: Operand, groups: int = 3) -> Grouped:
    return product_of(a, b, None, "sm_90a", None, groups)


def test_factors_of_two_dimensions_have_groups_of_k() -> None:
    found = product_of_k(record((40, 100), (1, 40)), record((100, 24), (24, 1)))
    assert (found.layout, found.n, found.other, found.groups, found.share) == ("nt", 24, 40, 3, 64)
    spec = found.spec(None)
    assert (spec.m, spec.n, spec.k, spec.groups) == (40, 24, None, lt.Groups(3, "k"))
    assert (spec.a_shape, spec.b_shape, spec.d_shape) == ((None, 40), (None, 24), (3, 40, 24))


def test_groups_of_k_are_rows_in_memory() -> None:
    by_m, by_n = record((40, 100), (1, 40)), record((100, 24), (24, 1))
    with pytest.raises(LaunchError, match=r"a has strides \(100, 1\).*\[grouped-k-rows\]"):
        product_of_k(record((40, 100), (100, 1)), by_n)
    with pytest.raises(LaunchError, match=r"b has strides \(1, 100\).*\[grouped-k-rows\]"):
        product_of_k(by_m, record((100, 24), (1, 100)))


def test_a_call_of_groups_of_k_passes_a_as_it_lies(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[tuple[Any, Any]] = []
    monkeypatch.setattr(grouped, "kernel_for", lambda wanted: lambda a, b, **others: passed.append((a, b)))
    given, a = arrays(Tensor), replace(view(Tensor(aligned(ROWS, 40)), "a"), shape=(40, ROWS), strides=(1, 40))
    b = Tensor(aligned(ROWS, N))
    GroupedMatmul()(a, b, given["ends"])
    ((left, right),) = passed
    assert (left.shape, left.strides, right) == ((ROWS, 40), (40, 1), b)


def test_calls_with_similar_numbers_of_rows_share_a_schedule() -> None:
    shares = [product(a=record((rows, 32), (32, 1))).share for rows in (1, 192, 193, 384, 385, 10**6)]
    assert shares == [16, 64, 128, 128, 256, 4096]


@pytest.mark.parametrize(
    ("a", "b", "code"),
    [
        (record((100, 33), (33, 1)), B, "grouped-shapes"),
        (A, record((32, 24), (24, 1)), "grouped-shapes"),
        (record((100, 32), (1, 100)), B, "grouped-rows"),
        (A, record((3, 32, 24), (1, 3, 96)), "grouped-matrices"),
    ],
)
def test_arrays_that_lie_otherwise_are_refused(a: Operand, b: Operand, code: str) -> None:
    with pytest.raises(LaunchError, match=rf"\[{code}\]"):
        product(a, b)


def test_a_call_compiles_once_and_passes_b_as_it_lies(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Grouped] = []

    def make(wanted: Grouped) -> Kernel:
        made.append(wanted)
        return kernel_of()

    monkeypatch.setattr(grouped, "kernel_for", make)
    call, given = GroupedMatmul(), arrays(Tensor)
    b = replace(view(given["b"], "b"), shape=(GROUPS, K, N), strides=(N * K, 1, K))
    for _ in range(2):
        assert call(given["a"], b, given["ends"], out=given["out"]) is given["out"]
    assert [each.layout for each in made] == ["tn"]
    assert fake.launches[0].values == fake.launches[1].values
    assert given["b"].data_ptr() in fake.launches[0].values


def test_a_known_call_has_a_plan_that_takes_other_addresses(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of()
    monkeypatch.setattr(grouped, "kernel_for", lambda wanted: kernel)
    call, given = GroupedMatmul(), arrays(Tensor)
    b = given["b"].swapaxes(-1, -2)  # (groups, K, N) with K contiguous
    assert call.known(given["a"], b, given["ends"], out=given["out"]) == (None, None, [])
    call(given["a"], b, given["ends"], out=given["out"])
    launch, plan, names = call.known(given["a"], b, given["ends"], out=given["out"])
    assert launch is not None and plan is not None and sorted(names) == ["a", "b", "d", "ends"]
    launch.again()
    assert fake.launches[1].values == fake.launches[0].values
    addresses = {"a": given["a"], "b": b, "d": Tensor(aligned(ROWS, N)), "ends": given["ends"]}
    plan.prepare([addresses[name].data_ptr() for name in names]).again()
    moved = [addresses["d"].data_ptr() if x == given["out"].data_ptr() else x for x in fake.launches[0].values]
    assert fake.launches[2].values == moved != fake.launches[0].values


def test_results_by_name_may_be_given(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The type of D is that of the full results, not of reductions."""
    made: list[Grouped] = []
    passed: list[Any] = []

    def make(wanted: Grouped) -> Any:
        made.append(wanted)
        return lambda a, b, *, out, **others: passed.append(out)

    monkeypatch.setattr(grouped, "kernel_for", make)
    given = arrays(Tensor)
    b = replace(view(given["b"], "b"), shape=(GROUPS, K, N), strides=(N * K, 1, K))
    sums = Tensor(np.zeros(ROWS, np.float32))
    for out in ({"sums": sums, "d": given["out"]}, {"sums": sums}):
        GroupedMatmul()(given["a"], b, given["ends"], out=out)
        assert passed[-1] is out
    assert [each.types for each in made] == [("f16", "f16", "f16")] * 2


PADDED_A, PADDED_B = record((3, 100, 32), (3200, 32, 1)), record((3, 32, 24), (768, 24, 1))


def padded(a: Operand = PADDED_A, b: Operand = PADDED_B, rows: int | None = None) -> Grouped:
    return padded_product_of(a, b, None, "sm_90a", None, rows)


def test_padded_groups_are_a_batch_with_counts() -> None:
    found = padded()
    assert (found.layout, found.n, found.other, found.groups, found.share) == ("tt", 24, 32, 3, 128)
    spec = found.spec(None)
    assert (spec.a_shape, spec.b_shape, spec.d_shape) == ((3, None, 32), (3, 32, 24), (3, None, 24))
    assert (spec.batch, spec.counts, spec.is_grouped, spec.ends) == (3, True, False, "counts")
    assert padded(rows=30).share == 32
    turned = padded(record((3, 100, 32), (3200, 1, 100)), record((3, 32, 24), (768, 1, 32)))
    assert (turned.layout, turned.of_pairs("stacked").n) == ("nn", 12)
    by_k_and_n = padded(record((3, 100, 32), (3200, 1, 100)))
    assert by_k_and_n.layout == "nt" and not by_k_and_n.is_of_k
    with pytest.raises(LaunchError, match=r"a_rows with padded groups.*\[grouped-row-index\]"):
        found.at_indices(10, ["a_rows"])


@pytest.mark.parametrize(
    ("a", "b", "code"),
    [
        (A, PADDED_B, "padded-shapes"),
        (record((2, 100, 32), (3200, 32, 1)), PADDED_B, "padded-shapes"),
        (PADDED_A, record((3, 33, 24), (792, 24, 1)), "padded-shapes"),
        (record((3, 100, 32), (1, 96, 3)), PADDED_B, "padded-strides"),
        (PADDED_A, record((3, 32, 24), (1, 72, 3)), "padded-strides"),
    ],
)
def test_arrays_that_are_no_padded_groups_are_refused(a: Operand, b: Operand, code: str) -> None:
    with pytest.raises(LaunchError, match=rf"\[{code}\]"):
        padded(a, b)


def test_a_call_takes_ends_or_counts(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[dict[str, Any]] = []
    monkeypatch.setattr(grouped, "kernel_for", lambda wanted: lambda a, b, **others: passed.append(others))
    call, given, a = GroupedMatmul(), arrays(Tensor), Tensor(matrices(GROUPS, ROWS, K))
    b = replace(view(given["b"], "b"), shape=(GROUPS, K, N), strides=(N * K, 1, K))
    call(a, b, counts=given["ends"])
    assert passed[0]["counts"] is given["ends"] and "ends" not in passed[0]
    for ends in ({}, {"ends": given["ends"], "counts": given["ends"]}):
        with pytest.raises(LaunchError, match=r"\[grouped-ends\]"):
            call(a, b, **ends)


@cache
def saved_padded() -> tuple[dict[str, Any], str]:
    spec = lt.GemmSpec(n=N, k=K, batch=None, counts=True, a="f16", b="f16", d="f16")
    kernel = lt.compile_gemm(spec, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")
    return kernel.manifest, kernel.ptx


PADDED_MATRIX = ("ptr", "i64", "i64", "i32")
PADDED_TYPES = (*PADDED_MATRIX, "i32", *PADDED_MATRIX, *PADDED_MATRIX, "i32", "ptr", "i32")


def test_the_kernel_of_padded_groups_gets_the_counts_as_a_pointer(install_driver: Install, torch: FakeTorch) -> None:
    manifest, ptx = saved_padded()
    assert (manifest["spec"]["batch"], manifest["spec"]["counts"]) == (None, True)
    assert manifest["arguments"][-1]["shape"] == [None]
    fake, given = install_driver(FakeDriver(types=PADDED_TYPES)), arrays()
    a, d = (InterfaceArray(matrices(GROUPS, ROWS, columns)) for columns in (K, N))
    Kernel(manifest, ptx)(a, given["b"], counts=given["ends"], out=d)
    assert view(given["ends"], "ends").address in fake.launches[-1].values
    for counts, code in (
        (np.zeros(GROUPS, np.int64), "operand-dtype"),
        (np.zeros(GROUPS + 1, np.int32), "extents-differ"),
        (np.zeros((), np.int32), "operand-rank"),
    ):
        with pytest.raises(LaunchError, match=rf"operand counts.*\[{code}\]"):
            Kernel(manifest, ptx)(a, given["b"], counts=InterfaceArray(counts), out=d)
    assert len(fake.launches) == 1


def test_a_manifest_with_counts_has_their_argument() -> None:
    manifest, _ = saved_padded()
    validate(manifest, "kernel")
    for spec in ({"counts": 1}, {"counts": None}):
        with pytest.raises(lt.LoadError, match=r"spec\.counts is .*must be true"):
            validate({**manifest, "spec": {**manifest["spec"], **spec}}, "kernel")
    with pytest.raises(lt.LoadError, match=r"with groups or counts one argument has the kind ends"):
        validate({**manifest, "arguments": manifest["arguments"][:-1]}, "kernel")


def test_autograd_would_not_record_a_call(fake: FakeDriver, torch: FakeTorch) -> None:
    torch.records_gradients = True
    given = arrays(Tensor)
    given["a"].requires_grad = True
    with pytest.raises(LaunchError, match=r"\[grouped-autograd\]"):
        GroupedMatmul()(given["a"], given["b"], given["ends"])


def test_a_schedule_whose_code_spills_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    product = Grouped(("bf16", "bf16", "bf16"), "tn", 64, 64, 2, 64, "sm_90a", None)

    def assembly(ptx: str, *rest: Any, **more: Any) -> Any:
        raise BadCode("the kernel spills 8 bytes per thread")

    monkeypatch.setattr("lowtide.compiler.kernel.assemble", assembly)
    asked: list[tuple[Any, ...]] = []
    whole = lt.compile_gemm

    def compile_gemm(spec: lt.GemmSpec, target: str, *schedule: Any) -> Any:
        asked.append(schedule)
        return whole(spec, target, *schedule)

    monkeypatch.setattr("lowtide.compiler.compile.compile_gemm", compile_gemm)
    monkeypatch.setenv("LOWTIDE_CACHE", "off")
    assert grouped.kernel_for(product).manifest["target"] == "sm_90a"
    assert [len(schedule) for schedule in asked] == [1, 0]


@pytest.mark.parametrize(
    ("option", "code"), [({"epilogue": []}, "epilogue-function"), ({"precision": ["f16"]}, "precision-kind")]
)
def test_options_of_the_wrong_kind_are_refused(fake: FakeDriver, option: dict[str, Any], code: str) -> None:
    a, b = InterfaceArray(aligned(8, 32)), InterfaceArray(aligned(3 * 24, 32).reshape(3, 24, 32).swapaxes(1, 2))
    with pytest.raises(lt.SpecError, match=rf"\[{code}\]"):
        lt.grouped_matmul(a, b, InterfaceArray(np.zeros(3, np.int32)), **option)
