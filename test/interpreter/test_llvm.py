"""Level llvm: each kind of kernel gives the D of level nvvm; inline assembly, its operands and what it may not do."""

import numpy as np
import pytest
from compiled import expected, inputs_of, spec
from one_cta import run_kernel

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret
from lowtide.interpreter.program.asm_constraints import operands_of, written_out


def gelu_of_sum(acc, row: lt.PerRow, c: lt.Full):
    return lt.gelu(acc + c) * row


ROLES = "grid.tile = [64, 16], order = row, k = 64, stages = 2, roles = cooperative(1)"
STORES = "roles = cooperative(2), grid.tile = [128, 64], k = 64, stages = 2, epilogue.path = tma"
KERNELS = {
    "tensor cores of sm_80": (spec(), "sm_80", "grid.tile = [32, 32], k = 32, stages = 3, atoms = [2, 1, 1]"),
    "FMAs": (spec(dtype="f32", d="f32"), "sm_80", "atom = fma.m1n1k1, grid.tile = [32, 32], k = 8, atoms = [8, 8, 1]"),
    "f64": (
        spec(dtype="f64", d="f64", acc="f64"),
        "sm_90a",
        "grid.tile = [64, 32], atoms = [2, 2, 1], stages = 3",
    ),
    "K in scattered parts": (
        spec(),
        "sm_80",
        "grid.tile = [32, 32], k = 32, stages = 2, atoms = [2, 1, 1], scheduler = persistent, k_division = scatter(2)",
    ),
    "TMA stores": (spec(), "sm_90a", f"{STORES}, epilogue.tile = [128, 32], epilogue.buffers = 2"),
    "streaming stores": (spec(), "sm_90a", f"{ROLES}, epilogue.path = direct, epilogue.cache = streaming"),
    "streaming stores of f32": (spec(d="f32"), "sm_90a", f"{ROLES}, epilogue.path = smem, epilogue.cache = streaming"),
    "a cluster": (spec(), "sm_90a", f"{ROLES}, cluster = [2, 1]"),
    "ping-pong": (spec(), "sm_90a", "roles = pingpong(2), grid.tile = [64, 16], k = 64, stages = 2, order = row"),
    "waves": (spec(), "sm_90a", f"{ROLES}, waves = synchronized"),
    "first rows": (
        spec(k=136),
        "sm_90a",
        "roles = cooperative(1), grid.tile = [128, 16], k = 64, stages = 2, epilogue.path = tma, "
        "epilogue.tile = [64, 16], epilogue.start = first_rows",
    ),
    "K turned around": (spec(), "sm_90a", f"{ROLES}, k_order = serpentine"),
}
SHAPE = (80, 72, 136)  # a multiple of 8 columns, as TMA stores need it


@pytest.mark.parametrize("name", KERNELS)
def test_each_kind_of_kernel(name):
    problem, target, schedule = KERNELS[name]
    kernel = lt.compile_gemm(problem, target=target, schedule=schedule)
    inputs = inputs_of(problem, *SHAPE)
    d = interpret(kernel.levels["llvm"], inputs, sms=2, seed=1, domain="exact")
    np.testing.assert_array_equal(d, expected(problem, inputs))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_same_bits_as_level_nvvm(target):
    """In floating point, with intrinsics, registers that are cast, and an epilogue with operands."""
    problem = spec(epilogue=gelu_of_sum)
    kernel = lt.compile_gemm(problem, target=target, schedule="grid.tile = [64, 64], k = 64")
    inputs = lt.random_inputs(problem, 70, 80, 72, np.random.default_rng(0))
    found = [kernel.interpret(**inputs, level=level) for level in ("nvvm", "llvm")]
    assert found[0].tobytes() == found[1].tobytes()


# Operands of inline assembly ------------------------------------------------------------------------------------------


def test_operands_by_their_constraints():
    found = operands_of("=f,=r,0,l,n,~{memory}")
    assert [(operand.type, operand.register) for operand in found] == [
        ("f32", "%operand0"),
        ("b32", "%operand1"),
        ("f32", "%operand0"),
        ("b64", "%operand3"),
        ("", ""),
    ]
    text = written_out("mov.b32 $1, $4; st.global.f32 [$3], $2; // $$", found, {4: 7})
    assert "mov.b32 %operand1, 7; st.global.f32 [%operand3], %operand0; // $" in text


@pytest.mark.parametrize(
    ("constraints", "message"),
    [("=q", r"constraint '=q' of inline.*\[constraint-word\]"), ("r,0", r"'0'.*\[constraint-word\]")],
)
def test_constraints_that_are_not_interpreted(constraints, message):
    with pytest.raises(InterpreterError, match=message):
        operands_of(constraints)


def test_an_operand_that_is_not_there():
    with pytest.raises(InterpreterError, match=r"1 operands, .*\$1.*\[constraint-number\]"):
        written_out("mov.b32 $0, $1;", operands_of("=r"), {})


# What the text does ---------------------------------------------------------------------------------------------------

COUNT = """{
.reg .pred more;
.reg .b32 left;
mov.u32 left, $1;
mov.u32 $0, 0;
AGAIN:
add.s32 $0, $0, 3;
sub.u32 left, left, 1;
setp.ne.u32 more, left, 0;
@more bra AGAIN;
}""".replace("\n", "\\0A")


def of_lanes(dtype, body, number_domain="exact"):
    """What a snippet's `%x` of each lane is stored as; `%count` is its number, and one more."""
    text = f"""
    gpu.module @kernels {{
      llvm.func @kernel(%d: !llvm.ptr<1>) attributes {{nvvm.kernel}} {{
        %lane = nvvm.read.ptx.sreg.tid.x : i32
        %one = llvm.mlir.constant(1 : i32) : i32
        %count = llvm.add %lane, %one : i32
        %to = llvm.getelementptr %d[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, {dtype}
        {body}
        llvm.store %x, %to : {dtype}, !llvm.ptr<1>
        llvm.return
      }}
    }}"""
    return run_kernel(text, [("d", 1, 32, dtype, None)], 32, number_domain).contents("d")[0][0]


def test_a_loop_that_lanes_go_round_differently_often_twice_in_a_function():
    found = of_lanes(
        "i32",
        f"""%y = llvm.inline_asm "{COUNT}", "=r,r" %count : (i32) -> i32
        %z = llvm.inline_asm "{COUNT}", "=r,r" %one : (i32) -> i32
        %x = llvm.add %y, %z : i32""",
    )
    np.testing.assert_array_equal(found, 3 * (np.arange(32) + 2))


def test_floats_tied_registers_and_several_results():
    found = of_lanes(
        "f32",
        """%f = llvm.sitofp %count : i32 to f32
        %c = llvm.mlir.constant(4.0 : f32) : f32
        %s = llvm.inline_asm "fma.rn.f32 $0, $0, $3, 0f3F800000; mov.b32 $1, $3;", "=f,=f,0,f" %f, %c
            : (f32, f32) -> !llvm.struct<(f32, f32)>
        %a = llvm.extractvalue %s[0] : !llvm.struct<(f32, f32)>
        %b = llvm.extractvalue %s[1] : !llvm.struct<(f32, f32)>
        %x = llvm.fadd %a, %b : f32""",
    )
    np.testing.assert_array_equal(found, 4 * np.arange(1, 33) + 1 + 4)


def test_what_is_not_interpreted_is_named():
    with pytest.raises(
        InterpreterError,
        match=r"`frob;` at assembly of .*: instruction 'frob' is not interpreted.*\[instruction-unknown\]",
    ):
        of_lanes("i32", 'llvm.inline_asm has_side_effects "frob;", "" : () -> ()\n%x = llvm.add %one, %one : i32')


def test_a_constant_that_is_none():
    with pytest.raises(InterpreterError, match=r"operand \$1 must be a constant \(constraint n\).*\[asm-constant\]"):
        of_lanes("i32", '%x = llvm.inline_asm "mov.b32 $0, $1;", "=r,n" %count : (i32) -> i32')
