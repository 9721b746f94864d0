"""Calls of functions by their addresses: in registers, in tables, and of virtual functions."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError, NotInterpreted
from lowtide.interpreter.ptx.parsing import parse

T = np.arange(32)
FUNCTIONS = """
.func (.param .b32 out) twice(.param .b32 x)
{ .reg .b32 r; ld.param.b32 r, [x]; shl.b32 r, r, 1; st.param.b32 [out], r; ret; }
.func (.param .b32 out) square(.param .b32 x)
{ .reg .b32 r; ld.param.b32 r, [x]; mul.lo.s32 r, r, r; st.param.b32 [out], r; ret; }
.func (.param .b32 out) negative(.param .b32 x)
{ .reg .b32 r; ld.param.b32 r, [x]; neg.s32 r, r; st.param.b32 [out], r; ret; }
.func (.param .b32 out) of_two(.param .b32 x, .param .b32 y)
{ .reg .b32 r; ld.param.b32 r, [y]; st.param.b32 [out], r; ret; }
.func (.reg .b32 out) in_registers(.reg .b32 x)
{ add.s32 out, x, 100; ret; }
"""
PROTOTYPE = "like: .callprototype (.param .b32 _) _ (.param .b32 _) .abi_preserve 8;"
STORE = "add.s64 %rd11, %rd1, %rd9; st.global.b32 [%rd11], %r3;"


def call(declared=PROTOTYPE, targets="like", guard=""):
    """A call of the function whose address is in %rd20."""
    return f"""{{ .param .b32 given; .param .b32 made; {declared}
st.param.b32 [given], %r1; st.param.b32 [made], 0;
{guard}call (made), %rd20, (given), {targets};
ld.param.b32 %r3, [made]; }}"""


def result(body, variables=""):
    return run(kernel(f"mov.b32 %r3, 77; {body} {STORE}", "z", FUNCTIONS + variables), {"z": ("i32", 32)})["z"]


@pytest.mark.parametrize(("name", "expected"), [("twice", 2 * T), ("square", T * T), ("negative", -T)])
def test_a_function_is_called_by_an_address_in_a_register(name, expected):
    take = f"mov.u64 %rd21, square; mov.u64 %rd22, negative; mov.u64 %rd23, twice; mov.u64 %rd20, {name};"
    np.testing.assert_array_equal(result(take + call()), expected)
    listed = call("some: .calltargets twice, square, negative;", "some")
    np.testing.assert_array_equal(result(f"mov.u64 %rd20, {name};{listed}"), expected)


SELECT = """mov.u64 %rd21, twice; mov.u64 %rd22, square; mov.u64 %rd23, negative; rem.u32 %r5, %r1, 3;
setp.eq.u32 %p1, %r5, 0; setp.eq.u32 %p2, %r5, 1; selp.b64 %rd20, %rd21, %rd23, %p1; selp.b64 %rd20, %rd22, %rd20, %p2;
"""
SELECTED = np.choose(T % 3, [2 * T, T * T, -T])


def test_lanes_may_call_several_functions():
    np.testing.assert_array_equal(result(SELECT + call()), SELECTED)
    some = "setp.lt.u32 %p3, %r1, 9;"
    np.testing.assert_array_equal(result(SELECT + some + call(guard="@%p3 ")), np.where(T < 9, SELECTED, 0))


def test_arguments_may_be_registers():
    body = """like: .callprototype (.reg .b32 _) _ (.reg .b32 _);
mov.u64 %rd20, in_registers; call (%r3), %rd20, (%r1), like;"""
    np.testing.assert_array_equal(result(body), T + 100)


TABLES = """
.const .align 8 .u64 table[3] = {twice, square, negative};
.global .align 8 .u64 pointers[2] = {generic(table), negative};
.global .align 1 .u8 packed[9] = {5, 0xFF(square), 0xFF00(square), 0xFF0000(square), 0xFF000000(square),
 0xFF00000000(square), 0xFF0000000000(square), 0xFF000000000000(square), 0xFF00000000000000(square)};
"""
INDEX = "rem.u32 %r5, %r1, 3; mul.wide.u32 %rd21, %r5, 8; mov.u64 %rd22, table; add.s64 %rd22, %rd22, %rd21;"


@pytest.mark.parametrize("targets", ["table", "like"])
def test_functions_are_called_from_a_table(targets):
    body = f"{INDEX} ld.const.u64 %rd20, [%rd22]; {call(targets=targets)}"
    np.testing.assert_array_equal(result(body, TABLES), SELECTED)


def test_a_virtual_function_is_called_through_a_pointer_in_an_object():
    body = f"""ld.global.u64 %rd22, [pointers]; .local .align 8 .b8 object[8];
st.local.u64 [object], %rd22; ld.local.u64 %rd23, [object]; ld.u64 %rd20, [%rd23+8]; {call()}"""
    np.testing.assert_array_equal(result(body, TABLES), T * T)


def test_an_address_may_be_given_by_its_bytes():
    bytes_ = "".join(f"ld.global.u8 %rd{30 + at}, [packed+{1 + at}]; " for at in range(8))
    joined = "mov.u64 %rd20, 0; " + "".join(
        f"shl.b64 %rd{30 + at}, %rd{30 + at}, {8 * at}; or.b64 %rd20, %rd20, %rd{30 + at}; " for at in range(8)
    )
    np.testing.assert_array_equal(result(bytes_ + joined + call(), TABLES), T * T)
    with pytest.raises(InterpreterError, match=r"\[ptx-initial-bytes\]"):
        result("", ".global .b8 short[2] = {0xFF(twice), 0xFF00(twice)};")


@pytest.mark.parametrize(
    "address",
    [
        "mov.u64 %rd20, 0;",  # no pointer
        "mov.u64 %rd20, twice; add.s64 %rd20, %rd20, 4;",
        "mov.u64 %rd20, of_two;",  # it does not fit the prototype
        "mov.u64 %rd21, twice; setp.eq.u32 %p1, %r1, 7; selp.b64 %rd20, 0, %rd21, %p1;",
    ],
)
def test_a_call_of_what_is_no_target_is_found(address):
    with pytest.raises(InterpreterError, match=r"lane [07]: calls address \d+, which .*\[call-target\]"):
        result(address + call())


AGAIN = """
.func (.param .b32 out) again(.param .b32 x)
{ .reg .b32 r; .reg .b64 f; .reg .pred p; .param .b32 given; .param .b32 made;
like: .callprototype (.param .b32 _) _ (.param .b32 _);
ld.param.b32 r, [x]; mov.u64 f, FIRST; setp.lt.s32 p, r, 5; @p mov.u64 f, square;
st.param.b32 [given], r; call (made), f, (given), like; ld.param.b32 r, [made]; st.param.b32 [out], r; ret; }
"""


def test_a_function_that_may_call_itself_runs_if_it_does_not():
    body = "mov.u64 %rd20, again;" + call()
    np.testing.assert_array_equal(result(body, AGAIN.replace("FIRST", "twice")), np.where(T < 5, T * T, 2 * T))
    with pytest.raises(NotInterpreted, match=r"lane 5: .*\[call-again\]"):
        result(body, AGAIN.replace("FIRST", "again"))


def test_a_function_that_is_not_defined_is_named_if_it_is_called():
    far = ".extern .func (.param .b32 out) far(.param .b32 x);"
    take = "mov.u64 %rd21, far; mov.u64 %rd20, twice;"
    np.testing.assert_array_equal(result(take + call(), far), 2 * T)
    with pytest.raises(NotInterpreted, match=r"\[call-target-extern\]"):
        result("mov.u64 %rd20, far;" + call(), far)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (call(targets="nothing"), "call-targets"),
        (call("some: .calltargets nothing;", "some"), "call-targets-known"),
        ("call %rd20;", "call-indirect"),
    ],
)
def test_calls_without_known_targets_are_refused(body, code):
    with pytest.raises(NotInterpreted, match=rf"\[{code}\]"):
        result("mov.u64 %rd20, twice;" + body)


def test_a_variable_is_initialized_with_what_there_is():
    with pytest.raises(InterpreterError, match=r"\[variable-pointer\]"):
        result("ld.global.u64 %rd20, [x];", ".global .u64 x = nothing;")


def test_labels_of_prototypes_are_those_of_their_braces():
    """Two blocks have prototypes with the same name."""
    registers = """{ like: .callprototype (.reg .b32 _) _ (.reg .b32 _);
mov.u64 %rd20, in_registers; call (%r3), %rd20, (%r1), like; }"""
    body = "mov.u64 %rd20, twice;" + call() + "mov.b32 %r4, %r3;" + registers + "add.s32 %r3, %r3, %r4;"
    np.testing.assert_array_equal(result(body), 3 * T + 100)
    assert len(parse(kernel(body, "z", FUNCTIONS)).entries["test"].prototypes) == 2
