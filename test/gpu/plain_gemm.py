"""A GEMM in hand-written PTX, one thread per element of D, and its manifest: what the runtime's GPU tests launch."""

from __future__ import annotations

from typing import Any

SHARED_BYTES = 65536  # more than 48 KiB: works by opt-in only

_LOAD = {
    "f16": "ld.global.b16 %h, [{0}];\n  cvt.f32.f16 {1}, %h;",
    "bf16": "ld.global.u16 %u, [{0}];\n  shl.b32 %u, %u, 16;\n  mov.b32 {1}, %u;",
}
_TEMPLATE = """.version 8.0
.target {target}
.address_size 64
.extern .shared .align 16 .b8 scratch[];
.visible .entry plain_gemm(
  .param .u64 pa, .param .u64 lda, .param .u64 pb, .param .u64 ldb, .param .u64 pd, .param .u64 ldd,
  .param .u32 pm, .param .u32 pn, .param .u32 pk, .param .f32 palpha)
.maxntid 128, 1, 1
{{
  .reg .b64 %a, %b, %d, %x;
  .reg .b32 %i, %j, %m, %n, %k, %t, %u;
  .reg .b16 %h;
  .reg .f32 %sum, %fa, %fb;
  .reg .pred %p;
  mov.u32 %t, %ctaid.x;
  shl.b32 %t, %t, 7;
  mov.u32 %u, %tid.x;
  add.u32 %t, %t, %u;
  ld.param.u32 %m, [pm];
  ld.param.u32 %n, [pn];
  ld.param.u32 %k, [pk];
  div.u32 %i, %t, %n;
  rem.u32 %j, %t, %n;
  setp.ge.u32 %p, %i, %m;
  @%p bra done;
  ld.param.u64 %a, [pa];
  ld.param.u64 %x, [lda];
  shl.b64 %x, %x, 1;
  cvt.u64.u32 %d, %i;
  mad.lo.u64 %a, %d, %x, %a;
  ld.param.u64 %b, [pb];
  ld.param.u64 %x, [ldb];
  shl.b64 %x, %x, 1;
  cvt.u64.u32 %d, %j;
  mad.lo.u64 %b, %d, %x, %b;
  mov.f32 %sum, 0f00000000;
  {fault}
loop:
  {load_a}
  {load_b}
  fma.rn.f32 %sum, %fa, %fb, %sum;
  add.u64 %a, %a, 2;
  add.u64 %b, %b, 2;
  sub.u32 %k, %k, 1;
  setp.ne.u32 %p, %k, 0;
  @%p bra loop;
  ld.param.f32 %fa, [palpha];
  mul.rn.f32 %sum, %sum, %fa;
  mov.u32 %u, scratch;
  st.shared.f32 [%u+{last}], %sum;
  cvt.rn.{dtype}.f32 %h, %sum;
  cvt.u64.u32 %d, %i;
  ld.param.u64 %x, [ldd];
  cvt.u64.u32 %a, %j;
  mad.lo.u64 %x, %d, %x, %a;
  shl.b64 %x, %x, 1;
  ld.param.u64 %d, [pd];
  add.u64 %d, %d, %x;
  st.global.b16 [%d], %h;
done:
  ret;
}}
"""

#: Faults for `plain_ptx`: a loop that forgets the last step; a kernel that takes 20 s.
DROPS_LAST_K = "sub.u32 %k, %k, 1;"
TAKES_LONG = """mov.u64 %d, %globaltimer;
  add.u64 %d, %d, 20000000000;
wait:
  mov.u64 %x, %globaltimer;
  setp.lt.u64 %p, %x, %d;
  @%p bra wait;"""


def plain_ptx(dtype: str, target: str = "sm_80", fault: str = "") -> str:
    """The kernel for a, b and d of `dtype` ("f16" or "bf16"), in layout tn, D = alpha · A·B."""
    return _TEMPLATE.format(
        target=target,
        fault=fault,
        dtype=dtype,
        last=SHARED_BYTES - 4,
        load_a=_LOAD[dtype].format("%a", "%fa").replace("%u", "%t"),
        load_b=_LOAD[dtype].format("%b", "%fb").replace("%u", "%t"),
    )


def plain_manifest(dtype: str, target: str = "sm_80", shared_memory: int = SHARED_BYTES) -> dict[str, Any]:
    """Run-time extents; base addresses and rows of A, B and D aligned to 16 bytes."""

    def op(name: str, results: list[str], operands: list[str], **attributes: Any) -> dict[str, Any]:
        return {"op": name, "results": results, "operands": operands, "attributes": attributes}

    def matrix(name: str, role: str = "input", kind: str = "matrix") -> dict[str, Any]:
        more = {"shape": [None, None], "base_alignment": 16, "row_stride_alignment": 16}
        return {"name": name, "role": role, "kind": kind, "dtype": dtype, **more}

    arguments = [(f"p{x}", "ptr") if y else (f"ld{x}", "i64") for x in ("a", "b", "d") for y in (1, 0)]
    arguments += [("m", "i32"), ("n", "i32"), ("k", "i32"), ("alpha", "f32")]
    launch = {
        "kernel": "plain_gemm",
        "grid": ["ctas", 1, 1],
        "block": [128, 1, 1],
        "cluster": None,
        "shared_memory": shared_memory,
        "arguments": [{"value": value, "type": kind} for value, kind in arguments],
    }
    alpha = {"name": "alpha", "role": "input", "kind": "scalar", "dtype": "f32", "shape": []}
    return {
        "format": 2,
        "lowtide": "by hand",
        "name": "plain",
        "target": target,
        "spec": {"m": None, "n": None, "k": None, "a": dtype, "b": dtype, "d": dtype, "acc": "f32", "layout": "tn"},
        "schedule": "",
        "epilogue": "alpha * acc",
        "epilogue_program": {
            "accumulator": "x",
            "ops": [
                op("arith.mulf", ["y"], ["x", "alpha"]),
                op("arith.truncf", ["z"], ["y"], type=dtype),
            ],
            "result": "z",
        },
        "example": {"m": 70, "n": 45, "k": 133},
        "arguments": [matrix("a"), matrix("b"), alpha, matrix("d", "output", "full")],
        "host": [
            op("memref.dim", ["m"], ["a"], index=0),
            op("memref.dim", ["k"], ["a"], index=1),
            op("memref.dim", ["n"], ["b"], index=0),
            *(op("memref.row_stride", [f"ld{x}"], [x]) for x in ("a", "b", "d")),
            *(op("memref.base_address", [f"p{x}"], [x]) for x in ("a", "b", "d")),
            op("arith.muli", ["elements"], ["m", "n"]),
            op("arith.constant", ["c128"], [], value=128),
            op("arith.ceildivsi", ["ctas"], ["elements", "c128"]),
            op("tile.launch", [], [], **launch),
        ],
    }
