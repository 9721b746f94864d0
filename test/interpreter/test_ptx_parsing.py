"""The parser of PTX: what it reads, and how it names what it does not."""

import random
import time
from collections.abc import Iterator

import pytest
from compiled import spec
from ptx_kernels import HEADER

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers import domains
from lowtide.interpreter.ptx.decoding import decode
from lowtide.interpreter.ptx.parsing import parse
from lowtide.interpreter.ptx.syntax import Address, Group, Guard, Immediate, Instruction, Label, Name, Register

TEXT = f"""{HEADER}
	// .globl	k
.file 1 "a.cu"
.extern .shared .align 1024 .b8 shared_memory[];
.visible .entry k(
	.param .u64 .ptr .global .align 1 k_param_0,
	.param .align 64 .b8 k_param_1[128]
)
.maxntid 128, 1, 1
.maxnreg 168
.reqnctapercluster 2, 1, 1
.explicitcluster
{{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<9>;
	.reg .b64 	%rd<3>;
	.loc 1 7 0
	mov.b64 	%rd1, k_param_1; /* a comment
	of two lines */
	@!%p1 st.shared.v2.b32 	[%rd1+-16], {{%r1, %r2}};
	mov.b32 	%r3, 0f3F800000;
	add.s32 	%r4, %r3, -128;
	.pragma "nounroll";
$L__BB0_1:
	{{
	.reg .pred %p1;
	AGAIN:
	mbarrier.try_wait.parity.shared.b64 %p1, [shared_memory+8], 0x1;
	@%p1 bra.uni $L__BB0_1;
	bra AGAIN;
	}}
	{{
	AGAIN: bra AGAIN;
	}}
	cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {{%r1, %r2}}], [shared_memory];
	setp.lt.f32 %p0|%p1, %r1, %r2;
	ret;
}}
"""


ONE_CONSUMER = "roles = cooperative(1), grid.tile = [64, 16], k = 64, stages = 2"


def entry():
    return parse(TEXT, "k.ptx").entries["k"]


def instructions():
    return [each for each in entry().body if isinstance(each, Instruction)]


def test_a_module_has_kernels_with_parameters_and_directives():
    module = parse(TEXT, "k.ptx")
    assert (module.version, module.target) == ("8.0", "sm_90a")
    assert [(each.name, each.space, each.size, each.align) for each in module.variables] == [
        ("shared_memory", "shared", 0, 1024)
    ]
    found = module.entries["k"]
    assert [(each.name, each.size, each.align) for each in found.parameters] == [
        ("k_param_0", 8, 1),
        ("k_param_1", 128, 64),
    ]
    assert found.directives == {
        "maxntid": (128, 1, 1),
        "maxnreg": (168,),
        "reqnctapercluster": (2, 1, 1),
        "explicitcluster": (),
    }


def test_operands_are_registers_constants_addresses_and_groups():
    move, store, constant, add, *_ = instructions()
    assert move.operands[1] == Name("k_param_1")
    place, group = store.operands
    assert isinstance(place, Address) and isinstance(place.base, Register)
    assert (place.base.name, place.base.type, place.offset) == ("%rd1", "b64", -16)
    assert isinstance(group, Group) and [each.name for each in group.elements] == ["%r1", "%r2"]
    assert store.guard == Guard(store.guard.register, True) and store.guard.register.type == "pred"
    assert constant.operands[1] == Immediate(0x3F800000, "f32")
    assert add.operands[2] == Immediate(-128)
    tensor = next(each for each in instructions() if each.name.startswith("cp.async.bulk"))
    assert [each.name for each in tensor.operands[0].coordinates] == ["%r1", "%r2"]


def test_names_and_labels_in_braces_are_of_their_braces():
    outer, inner = (each.guard.register for each in instructions() if each.guard is not None)
    assert outer.name == inner.name == "%p1" and outer.slot != inner.slot
    labels = [each.name for each in entry().body if isinstance(each, Label)]
    jumps = [each.operands[0].name for each in instructions() if each.name.startswith("bra")]
    assert len(set(labels)) == 3
    assert jumps == labels


def test_an_instruction_describes_itself_by_text_and_line():
    assert instructions()[1].describe() == "`@!%p1 st.shared.v2.b32 [%rd1+-16], {%r1, %r2};` at k.ptx:23 (a.cu:7)"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            "bra AGAIN;",
            "bra ELSEWHERE;",
            r"`bra ELSEWHERE;` at k\.ptx:33 .*: there is no such label \[no-label\]",
        ),
        (
            "add.s32 	%r4, %r3, -128;",
            "add.s32 %r4 %r3;",
            r"k\.ptx:25: ',' or ';' is expected, not '%r3'.*\[ptx-comma\]",
        ),
        (".reg .b64", "#reg .b64", r"k\.ptx:19: '#reg \.b64 ' .*\[ptx-word\]"),
        (".extern .shared", ".branch", r"k\.ptx:7: \.branch is not interpreted.*\[ptx-top-level\]"),
        ("-128;", "0189;", r"k\.ptx:25: 0189 .*\[ptx-octal\]"),
        ("-128;", f"{2**64};", r"k\.ptx:25: 18446744073709551616… does not fit into 64 bits.*\[ptx-number-bits\]"),
        (".align 1024", ".align 0", r"k\.ptx:7: an alignment of 0 bytes; it is a power of two.*\[ptx-alignment\]"),
        (
            ".reg .b64",
            ".reg .b65",
            r"k\.ptx:19: registers of type b65 are not interpreted; known are b128, b16, .*\[ptx-register-type\]",
        ),
        (
            "[%rd1+-16]",
            "[[[%rd1]]]",
            r"k\.ptx:23: an address, which is a register.* is expected, not '\['.*\[ptx-expected-what\]",
        ),
        ("[shared_memory+8]", "[shared_memory-8]", r"k\.ptx:31: .* write \+- and the number \[ptx-minus\]"),
        ("0f3F800000", "-0f3F800000", r"k\.ptx:24: the bits of a float have no minus; .*\[ptx-bits-minus\]"),
        ("{%r1, %r2};", "{{%r1}, %r2};", r"k\.ptx:23: a register or a number is expected, not '{'"),
        (
            "add.s32",
            "{" * 5000,
            r"k\.ptx:25: braces within braces, more than 64 deep, are not interpreted.*\[ptx-braces\]",
        ),
        (
            "%r4, %r3, -128",
            "%r4, %r3",
            r"k\.ptx:25 \(a.cu:7\): no known form of add has these modifiers and operands.*\[form-known\]",
        ),
        (
            "setp.lt.f32",
            "setp.lt",
            r"k\.ptx:39 \(a.cu:7\): the PTX ISA has no such form of setp; it takes one of .* \[form-in-isa\]",
        ),
        (
            "0f3F800000",
            "-x",
            r"k\.ptx:24: a number is expected, not 'x' \[ptx-constant\]",
        ),
    ],
)
def test_what_is_no_ptx_is_named_with_its_line(old, new, found):
    assert TEXT.count(old) >= 1
    with pytest.raises(InterpreterError, match=found):
        read(TEXT.replace(old, new, 1))


def read(text: str) -> None:
    module = parse(text, "k.ptx")
    for name in module.entries:
        decode(module, name, domains.domain("exact"))


def damaged(text: str, places: Iterator[int] | range) -> Iterator[str]:
    """The text cut off at each of the places, and without the character there."""
    for at in places:
        yield text[:at]
        yield text[:at] + text[at + 1 :]


def refused_or_read(texts: Iterator[str]) -> int:
    """How many texts are refused. Whatever else they raise fails the test."""
    refused = 0
    for text in texts:
        try:
            read(text)
        except InterpreterError as error:
            assert str(error)
            refused += 1
    return refused


def test_damaged_text_is_read_or_refused() -> None:
    text = TEXT.replace("cp.async.bulk.tensor", "//").replace("%p0|%p1", "%p1")
    read(text)
    assert refused_or_read(damaged(text, range(len(text)))) > len(text)
    for mark in "{[(<@":
        with pytest.raises(InterpreterError):
            read(text + mark * 5000)


@pytest.mark.parametrize(("target", "schedule"), [("sm_80", "grid.tile = [16, 16], k = 16"), ("sm_90a", ONE_CONSUMER)])
def test_damaged_text_of_a_compiled_kernel_is_read_or_refused(target: str, schedule: str) -> None:
    text = lt.compile_gemm(spec(), target=target, schedule=schedule).ptx
    assert text is not None
    chosen = random.Random(0).sample(range(len(text)), 40)
    assert refused_or_read(damaged(text, iter(chosen))) >= 40


def test_ten_thousand_lines_take_about_half_a_second():
    lines = "".join(f"add.s32 %r{at % 500}, %r{at % 399}, {at};\n" for at in range(10_000))
    text = f"{HEADER}.entry k()\n{{\n.reg .b32 %r<500>;\n{lines}}}\n"
    started = time.process_time()
    assert len(parse(text).entries["k"].body) == 10_000
    assert time.process_time() - started < 3
