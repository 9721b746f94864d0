"""Hand-written PTX for sm_90: one TMA load written back as it lies in shared memory, and the ranks in a cluster."""

from __future__ import annotations

from typing import Any

STORED_BYTES = 32768
POISON = 0xEEEEEEEE  # what shared memory holds before the load

TMA_PTX = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry load_box(
  .param .align 64 .b8 map[128], .param .u64 out, .param .u32 row, .param .u32 column, .param .u32 box_bytes)
.maxntid 128, 1, 1
{{
  .shared .align 1024 .b8 box[{STORED_BYTES}];
  .shared .align 8 .b64 full;
  .reg .b64 %map, %out, %to;
  .reg .b32 %box, %full, %row, %column, %bytes, %at, %from, %word, %tries;
  .reg .pred %p, %first;
  mov.u32 %box, box;
  mov.u32 %full, full;
  ld.param.u64 %out, [out];
  ld.param.u32 %row, [row];
  ld.param.u32 %column, [column];
  ld.param.u32 %bytes, [box_bytes];
  mov.b64 %map, map;
  cvta.param.u64 %map, %map;
  mov.u32 %word, %tid.x;
  setp.eq.u32 %first, %word, 0;
  shl.b32 %at, %word, 2;
poison:
  add.u32 %from, %box, %at;
  st.shared.b32 [%from], {POISON};
  add.u32 %at, %at, 512;
  setp.lt.u32 %p, %at, {STORED_BYTES};
  @%p bra poison;
  fence.proxy.async.shared::cta;
  @!%first bra prepared;
  mbarrier.init.shared::cta.b64 [%full], 1;
  fence.mbarrier_init.release.cluster;
  fence.proxy.async.shared::cta;
prepared:
  bar.sync 0;
  @!%first bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], %bytes;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
    [%box], [%map, {{%column, %row}}], [%full];
issued:
  mov.u32 %tries, 0;
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%full], 0;
  @%p bra landed;
  add.u32 %tries, %tries, 1;
  setp.lt.u32 %p, %tries, 1000000;
  @%p bra wait;
  trap;
landed:
  mov.u32 %at, %tid.x;
  shl.b32 %at, %at, 2;
store:
  add.u32 %from, %box, %at;
  ld.shared.b32 %word, [%from];
  cvt.u64.u32 %to, %at;
  add.u64 %to, %to, %out;
  st.global.b32 [%to], %word;
  add.u32 %at, %at, 512;
  setp.lt.u32 %p, %at, {STORED_BYTES};
  @%p bra store;
  ret;
}}
"""

CLUSTER_PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry ranks(.param .u64 out)
{
  .reg .b64 %out, %at;
  .reg .b32 %cta, %rank, %size;
  ld.param.u64 %out, [out];
  mov.u32 %cta, %ctaid.x;
  mul.wide.u32 %at, %cta, 8;
  add.u64 %out, %out, %at;
  mov.u32 %rank, %cluster_ctarank;
  mov.u32 %size, %cluster_nctarank;
  st.global.v2.b32 [%out], {%rank, %size};
  ret;
}
"""


def _manifest(name: str, arguments: list[dict[str, Any]], host: list[dict[str, Any]]) -> dict[str, Any]:
    dtype = arguments[0]["dtype"]
    spec = {"m": None, "n": None, "k": None, "a": dtype, "b": dtype, "d": "s32", "acc": "f32", "layout": "tn"}
    return {
        "format": 2,
        "lowtide": "by hand",
        "name": name,
        "target": "sm_90",
        "spec": spec,
        "schedule": "",
        "epilogue": None,
        "example": {"m": 64, "n": 64, "k": 64},
        "arguments": arguments,
        "host": host,
    }


def _argument(name: str, kind: str, dtype: str, role: str = "input") -> dict[str, Any]:
    rank = 0 if kind == "scalar" else 2
    alignment = 1 if kind == "scalar" else 16
    return {
        "name": name,
        "role": role,
        "kind": kind,
        "dtype": dtype,
        "shape": [None] * rank,
        "base_alignment": alignment,
        "row_stride_alignment": alignment,
    }


def _launch(kernel: str, arguments: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    geometry = {"grid": [1, 1, 1], "block": [128, 1, 1], "cluster": None, "shared_memory": 0}
    return {"op": "tile.launch", "attributes": {"kernel": kernel, "arguments": arguments, **geometry, **more}}


_ADDRESS_OF_D = {"op": "memref.base_address", "results": ["pd"], "operands": ["d"]}


def box_manifest(
    dtype: str, box: tuple[int, int], box_bytes: int, swizzle: tuple[int, int, int] | None, l2_promotion: int = 256
) -> dict[str, Any]:
    """`load_box` on A at run-time scalars row and column; D, (M, N) of i32, takes the first bytes of shared memory."""
    arguments = [
        _argument("a", "matrix", dtype),
        _argument("b", "matrix", dtype),
        _argument("row", "scalar", "s32"),
        _argument("column", "scalar", "s32"),
        _argument("d", "full", "s32", role="output"),
    ]
    attributes = {
        "box": list(box),
        "swizzle": swizzle and list(swizzle),
        "l2_promotion": l2_promotion,
        "dtype": dtype,
    }
    tensor_map = {"op": "sm.tensor_map", "results": ["map"], "operands": ["a"], "attributes": attributes}
    given = [("map", "tensor_map"), ("pd", "ptr"), ("row", "i32"), ("column", "i32"), (box_bytes, "i32")]
    launch = _launch("load_box", [{"value": value, "type": kind} for value, kind in given])
    return _manifest("load_box", arguments, [tensor_map, _ADDRESS_OF_D, launch])


def cluster_manifest(grid: int, cluster: int) -> dict[str, Any]:
    """`ranks`: each CTA writes its rank in its cluster, and the cluster's size, to D as two i32."""
    arguments = [
        _argument("a", "matrix", "f16"),
        _argument("b", "matrix", "f16"),
        _argument("d", "full", "s32", role="output"),
    ]
    launch = _launch(
        "ranks", [{"value": "pd", "type": "ptr"}], grid=[grid, 1, 1], block=[1, 1, 1], cluster=[cluster, 1, 1]
    )
    return _manifest("ranks", arguments, [_ADDRESS_OF_D, launch])
