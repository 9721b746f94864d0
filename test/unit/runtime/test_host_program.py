"""Host functions evaluated from their serialised ops."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from sample_kernel import argument, op, sample_manifest

from lowtide.errors import LaunchError, LoadError
from lowtide.runtime.host_compiler import compile_host
from lowtide.runtime.host_program import LaunchRecord


def memref(address: int, *shape: int, row_stride: int | None = None) -> SimpleNamespace:
    return SimpleNamespace(address=address, shape=shape, row_stride=row_stride or shape[-1])


ARGUMENTS = {"a": memref(256, 300, 64), "b": memref(512, 129, 64, row_stride=72), "d": memref(1024, 300, 136)}


def program_of(*ops: dict[str, Any], value: str = "v", kind: str = "i64") -> dict[str, Any]:
    manifest = sample_manifest()
    launch = op(
        "tile.launch",
        [],
        [],
        kernel="gemm_kernel",
        grid=[1, 1, 1],
        block=[32, 1, 1],
        cluster=None,
        shared_memory=0,
        arguments=[{"value": value, "type": kind}],
    )
    return {**manifest, "host": [*ops, launch]}


def evaluate(*ops: dict[str, Any]) -> Any:
    (launch,) = compile_host(program_of(*ops))(ARGUMENTS)
    return launch.arguments[0][0]


def test_the_sample_launches_one_grid_with_all_arguments_in_order() -> None:
    (launch,) = compile_host(sample_manifest())(ARGUMENTS)
    assert launch == LaunchRecord(
        kernel="gemm_kernel",
        grid=(6, 1, 1),
        block=(128, 1, 1),
        cluster=None,
        shared_memory=49152,
        arguments=(
            (256, "ptr"),
            (64, "i64"),
            (512, "ptr"),
            (72, "i64"),
            (1024, "ptr"),
            (136, "i64"),
            (300, "i32"),
            (129, "i32"),
            (64, "i32"),
        ),
    )


@pytest.mark.parametrize("flag", ["programmatic", "cooperative"])
def test_a_launch_says_how_it_starts(flag: str) -> None:
    manifest = {**program_of(op("arith.constant", ["v"], [], value=1)), "target": "sm_90a"}
    (plain,) = compile_host(manifest)(ARGUMENTS)
    manifest["host"][-1]["attributes"][flag] = True
    (flagged,) = compile_host(manifest)(ARGUMENTS)
    assert not getattr(plain, flag) and flagged == replace(plain, **{flag: True})


def test_an_assertion_on_an_address_fails_with_its_message() -> None:
    with pytest.raises(LaunchError, match=r"gemm: b must be 16-byte aligned; copy it.*\[host-assertion\]"):
        compile_host(sample_manifest())({**ARGUMENTS, "b": memref(520, 129, 64)})


def test_an_assertion_on_a_shape_fails_with_its_message() -> None:
    ops = [
        op("memref.dim", ["m"], ["a"], index=0),
        op("memref.dim", ["n"], ["b"], index=0),
        op("arith.cmpi", ["same"], ["m", "n"], predicate="sle"),
        op("cf.assert", [], ["same"], message="m > n"),
    ]
    with pytest.raises(LaunchError, match=r"gemm: m > n.*\[host-assertion\]"):
        compile_host(program_of(*ops, value="m"))(ARGUMENTS)


@pytest.mark.parametrize(
    ("name", "a", "b", "result"),
    [
        ("addi", 7, -9, -2),
        ("subi", 7, 9, -2),
        ("muli", -7, 9, -63),
        ("divsi", -7, 2, -3),
        ("divsi", 7, -2, -3),
        ("divsi", -8, -2, 4),
        ("floordivsi", -7, 2, -4),
        ("ceildivsi", -7, 2, -3),
        ("ceildivsi", 7, 2, 4),
        ("remsi", -7, 2, -1),
        ("remsi", 7, -2, 1),
        ("divui", -1, 2, 2**63 - 1),
        ("remui", -1, 10, 5),
        ("ceildivui", 9, 4, 3),
        ("minsi", -3, 2, -3),
        ("maxsi", -3, 2, 2),
        ("minui", -3, 2, 2),
        ("andi", 12, 10, 8),
        ("ori", 12, 10, 14),
        ("xori", 12, 10, 6),
        ("shli", 3, 4, 48),
        ("shrsi", -16, 2, -4),
        ("shrui", -1, 60, 15),
    ],
)
def test_integer_arithmetic_is_that_of_the_arith_dialect(name: str, a: int, b: int, result: int) -> None:
    ops = [op("arith.constant", ["x"], [], value=a), op("arith.constant", ["y"], [], value=b)]
    assert evaluate(*ops, op(f"arith.{name}", ["v"], ["x", "y"])) == result


@pytest.mark.parametrize(
    ("predicate", "result"),
    [
        ("eq", False),
        ("ne", True),
        ("slt", True),
        ("sle", True),
        ("sgt", False),
        ("sge", False),
        ("ult", False),
        ("ugt", True),
    ],
)
def test_comparisons_know_signed_from_unsigned(predicate: str, result: bool) -> None:
    ops = [op("arith.constant", ["x"], [], value=-1), op("arith.constant", ["y"], [], value=1)]
    assert evaluate(*ops, op("arith.cmpi", ["v"], ["x", "y"], predicate=predicate)) is result


def test_a_predicate_is_sign_extended_to_minus_one_and_zero_extended_to_one() -> None:
    start = [
        op("arith.constant", ["x"], [], value=1),
        op("arith.cmpi", ["p"], ["x", "x"], predicate="eq"),
        op("arith.andi", ["q"], ["p", "p"]),
    ]
    assert evaluate(*start, op("arith.extsi", ["v"], ["q"])) == -1
    assert evaluate(*start, op("arith.extui", ["v"], ["q"])) == 1
    assert evaluate(*start, op("arith.index_cast", ["v"], ["x"])) == 1


def test_select_and_truncation_keep_their_meaning() -> None:
    start = [
        op("arith.constant", ["x"], [], value=2**31 + 5),
        op("arith.constant", ["y"], [], value=3),
        op("arith.cmpi", ["p"], ["x", "y"], predicate="slt"),
    ]
    assert evaluate(*start, op("arith.select", ["v"], ["p", "x", "y"])) == 3
    assert evaluate(*start, op("arith.trunci", ["v"], ["x"], type="i32")) == -(2**31) + 5
    assert evaluate(*start, op("arith.trunci", ["v"], ["x"], type="i1")) is True


def test_a_persistent_grid_follows_the_number_of_sms() -> None:
    manifest = program_of(op("tile.sm_count", ["v"], []))
    manifest["host"][-1]["attributes"]["grid"] = ["v", 1, 1]
    program = compile_host(manifest)
    assert program(ARGUMENTS, sm_count=2)[0].grid == (2, 1, 1)
    with pytest.raises(LaunchError, match=r"sm_count=.*\[sm-count\]"):
        program(ARGUMENTS)


def test_a_run_time_scalar_is_a_launch_argument() -> None:
    manifest = sample_manifest(argument("alpha", "scalar", "f32"))
    (launch,) = compile_host(manifest)({**ARGUMENTS, "alpha": 1.5})
    assert launch.arguments[-1] == (1.5, "f32")


def test_addresses_are_read_at_every_call_and_shapes_only_once_a_signature() -> None:
    program = compile_host(sample_manifest())
    kept, grids, _ = program.early(ARGUMENTS, 0, {})
    assert grids == ((6, 1, 1),)
    assert [row[0] for row in program.late(kept, [4096, 512, 1024])] == [4096]
    with pytest.raises(LaunchError, match=r"a must be 16-byte aligned.*\[host-assertion\]"):
        program.late(kept, [4097, 512, 1024])


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(LaunchError, match=r"operand d is missing.*\[operand-missing\]"):
        compile_host(sample_manifest())({"a": ARGUMENTS["a"], "b": ARGUMENTS["b"]})


def test_a_division_by_zero_is_an_error_of_ours() -> None:
    ops = [op("arith.constant", ["x"], [], value=0), op("arith.divsi", ["v"], ["x", "x"])]
    with pytest.raises(LaunchError, match=r"divides by zero.*\[host-divides-by-zero\]"):
        evaluate(*ops)


@pytest.mark.parametrize("extent", [-1, 2**31])
def test_a_grid_out_of_range_is_refused(extent: int) -> None:
    manifest = program_of(op("arith.constant", ["v"], [], value=extent))
    manifest["host"][-1]["attributes"]["grid"] = ["v", 1, 1]
    with pytest.raises(LaunchError, match=r"CUDA allows 1 to.*\[grid-axes\]"):
        compile_host(manifest)(ARGUMENTS)


def test_a_launch_of_no_ctas_is_left_out() -> None:
    manifest = program_of(op("arith.constant", ["v"], [], value=0))
    manifest["host"][-1]["attributes"]["grid"] = ["v", 1, 1]
    assert compile_host(manifest)(ARGUMENTS) == []


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ([op("arith.frobnicate", ["v"], [])], r"host\[0\] \(arith.frobnicate\): unknown op"),
        ([op("memref.load", ["v"], ["a"])], r"unknown op.*\[host-program\]"),
        ([op("memref.dim", ["v"], ["a"], index=2)], "index 2 is outside the 2 dimensions"),
        ([op("memref.dim", ["v"], ["x"], index=0)], "must be one memref argument"),
        ([op("arith.addi", ["v"], ["x", "y"])], "'x' is used before it is defined"),
        ([op("arith.addi", ["v"], [])], "has 0 operands, must have 2"),
        ([op("arith.constant", ["v"], [], value="3")], r"must be a number.*\[host-program\]"),
        ([op("arith.constant", [], [], value=3)], "must define one new value"),
        ([op("arith.constant", ["v"], [], value=3)] * 2, "must define one new value"),
        (
            [op("arith.constant", ["x"], [], value=3), op("arith.cmpi", ["v"], ["x", "x"], predicate="lt")],
            "'predicate' is 'lt', must be one of eq",
        ),
        (
            [op("arith.constant", ["x"], [], value=3), op("arith.trunci", ["v"], ["x"])],
            r"attribute 'type' is None.*\[host-program\]",
        ),
    ],
)
def test_ops_that_cannot_be_are_refused_when_loading(ops: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        compile_host(program_of(*ops))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"kernel": None}, "kernel is None, must be the name of an entry"),
        ({"kernel": "a\nb"}, r"kernel is 'a.*\[host-program\]"),
        ({"arguments": None}, "arguments is NoneType, must be a list"),
        ({"arguments": [{"value": "p", "type": ["ptr"]}]}, "must have a value and a type"),
        ({"arguments": [{"value": "p", "type": "f32"}]}, "has type 'f32', must have 'an integer type'"),
        ({"arguments": [{"value": True, "type": "i32"}]}, r"True .*\[host-program\]"),
        ({"arguments": [{"value": 1.5, "type": "i32"}]}, r"1\.5 .*\[host-program\]"),
        ({"shared_memory": -1}, "shared_memory is -1, must be 0 to 166912 bytes"),
        ({"shared_memory": 166913}, "shared_memory is 166913, must be 0 to 166912 bytes"),
        ({"shared_memory": 10**12}, "shared_memory is 1000000000000, must be"),
        ({"shared_memory": 1.0}, "shared_memory is 1.0, must be"),
        ({"block": [2**40, 1, 1]}, r"block is \[1099511627776, 1, 1\], must be three integers from 1 to"),
        ({"block": [32, 32, 2]}, "2048 threads; a CTA has at most 1024"),
        ({"block": [1, 1, 128]}, r"block is.*\[host-program\]"),
        ({"cluster": [2, 1, 1]}, r"cluster is \[2, 1, 1\], must be three integers from 1 to \[1, 1, 1\]"),
        ({"cluster": False}, r"cluster is False.*\[host-program\]"),
        ({"programmatic": 1}, "programmatic is 1, must be true or false"),
        ({"programmatic": True}, "programmatic is true, which needs a target of sm_90 or later"),
        ({"grid": [-1, 1, 1]}, r"grid is \[-1, 1, 1\], must have values, or integers from 1 to"),
        ({"grid": [1, 65536, 1]}, r"grid is.*\[host-program\]"),
        ({"grid": [1.0, 1, 1]}, r"grid is.*\[host-program\]"),
        ({"clusters": [1, 1, 1]}, "attribute 'clusters' is unknown"),
        ({"block": [32, 1]}, r"block is.*\[host-program\]"),
        ({"cluster": [0, 1, 1]}, r"cluster is.*\[host-program\]"),
        ({"grid": [1]}, r"grid is.*\[host-program\]"),
        ({"grid": ["p", 1, 1]}, "grid depends on an address"),
        ({"arguments": [{"value": "p", "type": "u128"}]}, "must have a value and a type"),
    ],
)
def test_a_launch_that_cannot_be_is_refused_when_loading(attributes: dict[str, Any], message: str) -> None:
    manifest = program_of(op("memref.base_address", ["p"], ["a"]), value="p", kind="ptr")
    compile_host(manifest)
    manifest["host"][-1]["attributes"].update(attributes)
    with pytest.raises(LoadError, match=message):
        compile_host(manifest)


@pytest.mark.parametrize(
    ("sides", "legal"), [([16, 1, 1], True), ([4, 4, 1], True), ([99, 1, 1], False), ([8, 4, 1], False)]
)
def test_a_cluster_is_at_most_what_the_target_has(sides: list[int], legal: bool) -> None:
    manifest = program_of(op("arith.constant", ["v"], [], value=1))
    manifest["target"] = "sm_90a"
    manifest["host"][-1]["attributes"]["cluster"] = sides
    if legal:
        assert compile_host(manifest).launches[0].cluster == tuple(sides)
        return
    with pytest.raises(LoadError, match=r"cluster is .*16.*\[host-program\]"):
        compile_host(manifest)


def test_a_shift_past_the_width_is_an_error_of_ours() -> None:
    for count in (64, 10**18, -1):
        ops = [op("arith.constant", ["x"], [], value=1), op("arith.constant", ["y"], [], value=count)]
        with pytest.raises(LaunchError, match=rf"shifts 64 bits by {count}.*\[host-shift\]"):
            evaluate(*ops, op("arith.shli", ["v"], ["x", "y"]))


def test_a_float_takes_part_in_no_arithmetic_on_the_host() -> None:
    manifest = sample_manifest(argument("alpha", "scalar", "f32"))
    manifest["host"].insert(0, op("arith.addi", ["v"], ["alpha", "alpha"]))
    with pytest.raises(LoadError, match=r"float.*\[host-program\]"):
        compile_host(manifest)


def test_a_host_function_without_a_launch_is_refused() -> None:
    with pytest.raises(LoadError, match=r"launches nothing.*\[host-launches-nothing\]"):
        compile_host({**sample_manifest(), "host": []})
