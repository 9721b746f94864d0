"""Variables of all state spaces, parameters, calls of functions and indexed jumps."""

import numpy as np
import pytest
from ptx_kernels import HEADER, kernel, run

from lowtide.errors import InterpreterError, NotInterpreted
from lowtide.interpreter.ptx.parsing import parse

T = np.arange(32)
STORE = "add.s64 %rd11, %rd1, %rd9; st.global.b32 [%rd11], %r3;"


def result(body, variables="", dtype="i32", domain="float"):
    return run(kernel(body + STORE, "z", variables), {"z": (dtype, 32)}, domain=domain)["z"]


VARIABLES = """
.const .f32 table[2][2] = {{1.0, 2.0}, {0f40400000, -4.0}};
.global .align 4 .b8 text[8] = {1, 2, 3, 4, 5};
.global .u64 pointers[2] = {table + 4, generic(text)};
.global .u32 zero, seven = 7;
.visible .global .attribute(.managed) .align 4 .u32 managed = 8;
.global .u64 large = 0x123456789abcdef0;
.const .s16 short[4] = {-1, 2};
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ld.global.u32 %r3, [text];", 0x04030201),
        ("ld.global.u8 %r3, [text+4];", 5),
        ("ld.global.u32 %r3, [text+4];", 5),
        ("ld.global.u32 %r3, [zero];", 0),
        ("ld.global.u32 %r3, [seven];", 7),
        ("ld.global.u32 %r3, [managed];", 8),
        ("ld.global.u64 %rd20, [large]; cvt.u32.u64 %r3, %rd20;", 0x9ABCDEF0 - 2**32),
        ("ld.global.u32 %r3, [large+4];", 0x12345678),
        ("ld.const.s16 %r3, [short];", -1),
        ("ld.const.f32 %r4, [table+12]; cvt.rzi.s32.f32 %r3, %r4;", -4),
        ("ld.global.u64 %rd20, [pointers]; ld.const.f32 %r4, [%rd20]; cvt.rzi.s32.f32 %r3, %r4;", 2),
        ("ld.global.u64 %rd20, [pointers+8]; ld.u8 %r3, [%rd20+2];", 3),
        ("mov.u64 %rd20, text; cvta.global.u64 %rd21, %rd20; ld.u8 %r3, [%rd21+1];", 2),
    ],
)
@pytest.mark.parametrize("domain", ["float", "exact"])
def test_initialized_variables_hold_their_values(body, expected, domain):
    assert (result(body, VARIABLES, domain=domain) == expected).all()


def test_a_variable_in_global_memory_is_shared_by_all_threads_and_keeps_what_is_stored():
    body = """setp.eq.u32 %p1, %r1, 5;
@%p1 st.global.u32 [zero], 40;
bar.warp.sync -1;
ld.global.u32 %r3, [zero];"""
    assert (result(body, VARIABLES) == 40).all()


def test_each_thread_has_its_own_local_memory_through_named_and_generic_addresses():
    body = """.local .align 16 .b8 depot[64];
.reg .b64 sp, spl;
.reg .v2 .b32 v;
mov.u64 spl, depot;
cvta.local.u64 sp, spl;
shl.b32 %r20, %r1, 1;
st.u32 [sp+8], %r20;
st.local.v2.b32 [spl+16], {%r20, %r1};
ld.local.u32 %r21, [spl+8];
ld.v2.b32 v, [sp+16];
mad.lo.s32 %r3, %r21, 100, v.y;
add.s32 %r3, %r3, v.x;"""
    np.testing.assert_array_equal(result(body), 203 * T)


@pytest.mark.parametrize(
    ("access", "code"),
    [
        ("ld.local.u32 %r3, [depot];", "uninitialised-read"),
        ("st.local.u32 [depot+16], %r1;", "local-out-of-bounds"),
        ("shl.b32 %r4, %r1, 1; cvt.u64.u32 %rd20, %r4; st.local.u16 [%rd20], %r1;", "local-out-of-bounds"),
    ],
)
def test_faults_of_local_memory_are_found(access, code):
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        result(f".local .align 4 .b8 depot[16]; mov.b32 %r3, 0; {access}")


def test_a_register_vector_is_loaded_as_a_whole():
    body = """.reg .v4 .b32 v;
.reg .v2 .f32 w;
mov.b32 v.x, %r1; mov.b32 v.y, 1; mov.b32 v.b, 2; mov.b32 v.w, 3;
.shared .align 16 .b8 place[512];
mov.u32 %r5, place;
shl.b32 %r6, %r1, 4;
add.s32 %r5, %r5, %r6;
st.shared.v4.b32 [%r5], v;
ld.shared.v4.b32 {%r7, %r8, %r9, %r10}, [%r5];
mad.lo.s32 %r3, %r9, 10, %r7;"""
    np.testing.assert_array_equal(result(body), T + 20)


FUNCTIONS = """
.func (.param .b32 out) apart(.param .b32 x, .reg .b32 q)
{
.reg .b32 %r<4>;
.reg .pred p;
ld.param.b32 %r1, [x];
setp.gt.s32 p, %r1, 5;
@p bra LARGE;
add.s32 %r2, %r1, q;
st.param.b32 [out], %r2;
ret;
LARGE:
sub.s32 %r2, %r1, q;
st.param.b32 [out+0], %r2;
}
.func (.reg .b32 y) twice(.reg .b32 x)
{
add.s32 y, x, x;
ret;
}
.func (.param .align 8 .b8 out[16]) both(.param .align 8 .b8 pair[16])
{
.reg .b64 %rd<3>;
ld.param.v2.b64 {%rd1, %rd2}, [pair];
st.param.b64 [out+8], %rd1;
st.param.b64 [out], %rd2;
ret;
}
.func (.param .b32 out) four(.param .b32 x)
{
.reg .b32 %r<4>;
ld.param.b32 %r1, [x];
call.uni (%r2), twice, (%r1);
call (%r2), twice, (%r2);
st.param.b32 [out], %r2;
ret;
}
.extern .func (.param .b32 out) vprintf(.param .b64 format, .param .b64 arguments);
"""


def call(name, argument, result="%r3"):
    return f"""{{ .param .b32 in; .param .b32 back; st.param.b32 [in+0], {argument};
call.uni (back), {name}, (in{", %r5" if name == "apart" else ""}); ld.param.b32 {result}, [back+0]; }}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"shl.b32 %r5, %r1, 2; {call('apart', '%r1')}", np.where(T > 5, -3 * T, 5 * T)),
        ("call (%r3), twice, (%r1);", 2 * T),
        (call("four", "%r1"), 4 * T),
        (call("four", "%r1") + call("four", "%r3"), 16 * T),
        (f"mov.b32 %r3, 0; setp.lt.u32 %p1, %r1, 7; @!%p1 bra OUT; {call('four', '%r1')} OUT:", 4 * T * (T < 7)),
        ("setp.lt.u32 %p1, %r1, 9; mov.b32 %r3, 1; @%p1 call (%r3), twice, (%r1);", np.where(T < 9, 2 * T, 1)),
        (
            """{ .param .align 8 .b8 in[16]; .param .align 8 .b8 back[16]; cvt.u64.u32 %rd20, %r1;
st.param.b64 [in], %rd20; st.param.b64 [in+8], 100; call (back), both, (in); ld.param.v2.b64 {%rd21, %rd22}, [back];
mad.lo.s64 %rd21, %rd22, 1000, %rd21; cvt.u32.u64 %r3, %rd21; }""",
            1000 * T + 100,
        ),
        (
            """{ .param .b64 f; .param .b64 a; .param .b32 back; st.param.b64 [f], 0; st.param.b64 [a], 0;
call.uni (back), vprintf, (f, a); ld.param.b32 %r3, [back]; }""",
            0 * T,
        ),
    ],
)
def test_calls_run_the_function_and_give_its_result(body, expected):
    np.testing.assert_array_equal(result(body, FUNCTIONS), expected)


def test_a_function_may_have_another_name():
    other = ".func (.param .b32 out) also(.param .b32 x);\n"
    np.testing.assert_array_equal(result(call("also", "%r1"), f"{FUNCTIONS}{other}.alias also, four;\n"), 4 * T)
    with pytest.raises(InterpreterError, match=r"\[ptx-alias\]"):
        result(call("also", "%r1"), f"{FUNCTIONS}{other}.alias also, five;\n")


@pytest.mark.parametrize(
    ("functions", "body", "code"),
    [
        (".func again() { call again; ret; }", "call again;", "call-recursive"),
        (".func (.param .b32 out) other(.param .b32 x);", call("other", "%r1"), "call-extern"),
        (FUNCTIONS, "call (%r3), twice, ();", "call-arguments"),
        (FUNCTIONS, "call (%r3), four, (%r1);", "call-variable"),
        ("", "call %r3;", "call-indirect"),
    ],
)
def test_calls_that_cannot_be_copied_are_refused(functions, body, code):
    with pytest.raises(NotInterpreted, match=rf"\[{code}\]"):
        result(body, functions)


def test_calls_may_not_grow_without_bound():
    levels = "".join(
        f".func f{at}() {{ {f'call f{at - 1};' * 10 if at else 'pmevent 1;' * 10} ret; }}\n" for at in range(6)
    )
    with pytest.raises(NotInterpreted, match=r"\[call-size\]"):
        result("call f5;", levels)


def test_a_failed_assertion_a_trap_and_a_breakpoint_stop_the_kernel():
    declared = ".extern .func __assertfail(.param .b64 a);"
    assertion = "{ .param .b64 a; st.param.b64 [a], 0; call.uni __assertfail, (a); }"
    with pytest.raises(InterpreterError, match=r"`call.uni __assertfail.*CTA 0 warp 0.*\[kernel-trap\]"):
        result(f"mov.b32 %r3, 1; {assertion}", declared)
    body = "mov.b32 %r3, 1; setp.gt.u32 %p1, %r1, {}; @!%p1 bra FINE; {}; FINE: pmevent 3; pmevent.mask 9;"
    assert (result(body.format(40, "trap")) == 1).all()
    for word, code in (("trap", "kernel-trap"), ("brkpt", "kernel-breakpoint")):
        with pytest.raises(InterpreterError, match=rf"`{word};` at .*\[{code}\]"):
            result(body.format(30, word))


def test_a_load_without_a_type_finds_numbers_of_several_types():
    """In other lanes, and in other registers of a vector: 7 and 1.5f, which is doubled, are added."""
    stored = "mov.b32 %r4, 0f3FC00000; add.f32 %r4, %r4, 0f00000000; mov.b32 %r5, 7; and.b32 %r6, %r1, 1;"
    stored += "setp.eq.b32 %p1, %r6, 0; @!%p1 mov.b32 %r7, %r4; @%p1 mov.b32 %r7, %r5; @%p1 mov.b32 %r5, %r4;"
    kept = ".shared .align 8 .b8 kept[256];"
    body = f"""{stored} mov.b32 %r8, kept; shl.b32 %r9, %r1, 3; add.u32 %r9, %r9, %r8; st.shared.b32 [%r9], %r7;
    st.shared.b32 [%r9+4], %r5; bar.sync 0; ld.shared.b32 %r7, [%r9]; ld.shared.v2.b32 {{%r4, %r5}}, [%r9];
    @!%p1 add.f32 %r7, %r7, %r7; @!%p1 cvt.rzi.s32.f32 %r7, %r7; @%p1 add.f32 %r5, %r5, %r5;
    @%p1 cvt.rzi.s32.f32 %r5, %r5; add.s32 %r3, %r7, %r5;"""
    assert (result(body, kept) == 10).all()


def test_a_failed_assertion_of_some_lanes_is_told_with_its_text_and_place():
    """Not the barrier that these lanes do not reach."""
    text = {"what": b"x > 0", "file": b"/home/me/k.py"}
    declared = ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);"
    declared += "".join(
        f".global .b8 {name}[{len(each) + 1}] = {{{', '.join(map(str, each))}}};" for name, each in text.items()
    )
    stored = "".join(
        f"mov.b64 %rd1, {name}; cvta.global.u64 %rd1, %rd1; st.param.b64 [{at}], %rd1;"
        for at, name in zip("ab", text, strict=True)
    )
    body = (
        "mov.b32 %r3, 1; setp.gt.u32 %p1, %r1, 29; @%p1 bra BAD; bar.sync 0; bra FINE; BAD: { .param .b64 a;"
        f" .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; {stored} st.param.b32 [c], 7;"
        " call.uni __assertfail, (a, b, c, d, e); } trap; FINE: pmevent 3;"
    )
    with pytest.raises(
        InterpreterError, match=r"the assertion 'x > 0' of k.py:7 fails in lanes 30, 31 \[kernel-trap\]"
    ):
        result(body, declared)


def test_exit_ends_a_thread_inside_a_function():
    functions = ".func leave(.reg .b32 x) { .reg .pred p; setp.lt.u32 p, x, 9; @p exit; ret; }"
    found = run(kernel(f"mov.b32 %r3, 5; call leave, (%r1); {STORE}", "z", functions), {"z": ("i32", np.zeros(32))})[
        "z"
    ]
    np.testing.assert_array_equal(found, np.where(T < 9, 0, 5))


JUMP = """targets: .branchtargets FIRST, SECOND, THIRD;
brx.idx{} {}, targets;
FIRST: mov.b32 %r3, 10; bra OUT;
SECOND: mov.b32 %r3, 20; bra OUT;
THIRD: mov.b32 %r3, 30;
OUT:"""


def test_an_indexed_jump_takes_each_lane_to_its_label():
    np.testing.assert_array_equal(result("rem.u32 %r5, %r1, 3;" + JUMP.format("", "%r5")), 10 * (1 + T % 3))
    assert (result("mov.b32 %r5, 1;" + JUMP.format(".uni", "%r5")) == 20).all()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("and.b32 %r5, %r1, 3;" + JUMP.format("", "%r5"), "branch-index-range"),
        ("brx.idx %r1, nowhere;", "branch-targets"),
        ("setp.eq.u32 %p1, %r1, 0; " + JUMP.replace("brx", "@%p1 brx").format("", "%r1"), "branch-index"),
        ("targets: .branchtargets NOWHERE;", "ptx-branch-target"),
    ],
)
def test_faults_of_indexed_jumps_are_found(body, code):
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        result("mov.b32 %r3, 0;" + body)


def test_parts_of_a_parameter_that_is_passed_by_value():
    text = f"""{HEADER}.visible .entry test(.param .u64 z, .param .align 8 .b8 pair[24], .param .u8 small)
{{
.reg .b32 %r<9>;
.reg .b64 %rd<5>;
.reg .b16 %rs<3>;
ld.param.u64 %rd1, [z];
ld.param.u32 %r1, [pair+4];
ld.param.s16 %r2, [pair+10];
ld.param.v2.u32 {{%r3, %r4}}, [pair+16];
ld.param.u8 %r5, [small];
ld.param.s8 %r6, [small];
st.global.v2.u32 [%rd1], {{%r1, %r2}};
st.global.v4.u32 [%rd1+16], {{%r3, %r4, %r5, %r6}};
ret;
}}"""
    values = np.array([1, 2, 0xFFFE0003, 4, 5, 6], "u4").tobytes()
    one_thread = text.replace("st.global", "@p st.global").replace(
        "ld.param.u64", ".reg .pred p; .reg .b32 t; mov.u32 t, %tid.x; setp.eq.u32 p, t, 0;\nld.param.u64", 1
    )
    scalars = (int.from_bytes(values, "little", signed=True), -1)
    found = run(one_thread, {"z": ("i32", np.zeros(8))}, scalars=scalars)["z"]
    np.testing.assert_array_equal(found, [2, -2, 0, 0, 5, 6, 255, -1])
    with pytest.raises(InterpreterError, match=r"\[parameter-outside\]"):
        run(text.replace("[pair+4]", "[%rd1]"), {"z": ("i32", 8)}, scalars=scalars)


@pytest.mark.parametrize(
    ("variable", "code"),
    [
        (".global .u32 x[2] = {1, 2, 3};", "ptx-initial-size"),
        (".global .u32 x[2] = {{1}, 2};", "ptx-initial-braces"),
        (".global .u32 y; .global .u32 x = y;", "ptx-initial-address"),
        (".shared .u32 x = 1;", "variable-initialized"),
        (".local .b8 x[1000000];", "local-bytes"),
    ],
)
def test_variables_that_cannot_be_are_refused(variable, code):
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        result("mov.b32 %r3, 0;", variable)


def test_only_a_predicate_is_negated():
    with pytest.raises(InterpreterError, match=r"\[ptx-negated\]"):
        parse(f"{HEADER}.entry e() {{ .reg .b32 r; mov.b32 r, !1; }}")


def test_vectors_are_moved_and_words_of_a_declaration_may_touch():
    body = """{ .reg.v4.b32 v; .reg.b32 w; .local.b32 own;
mov.v4.u32 v, {%r1, 2, 3, WARP_SZ}; mov.v4.u32 {%r5, %r6, w, %r8}, v; mov.v2.u32 {%r9, %r10}, {%r8, %r5};
add.s32 %r3, %r9, %r10; st.local.b32 [own], WARP_SZ; ld.local.b32 w, [own]; add.s32 %r3, %r3, w; }"""
    np.testing.assert_array_equal(result(body), 64 + T)
    with pytest.raises(NotInterpreted, match=r"\[form-known\]"):
        result("mov.v4.u32 {%r5, %r6}, {%r1, %r1}; mov.b32 %r3, 0;")


def test_a_float_is_loaded_into_a_wider_register_of_bits():
    body = "ld.global.f32 %rd20, [number]; cvt.u32.u64 %r3, %rd20;"
    assert (result(body, ".global .f32 number = 1.0;") == 0x3F800000).all()
