"""A manifest as the compiler writes it, for a GEMM with run-time extents, and the PTX text that goes with it."""

from __future__ import annotations

import struct
from typing import Any

from lowtide.elements import element_type
from lowtide.runtime import Kernel

_PARAMETERS = {
    "ptr": ".u64 .ptr .global .align 1 {}",
    "i64": ".u64 {}",
    "i32": ".u32 {}",
    "f32": ".f32 {}",
    "f16": ".b16 {}",
    "bf16": ".b16 {}",
    "tensor_map": ".align 64 .b8 {}[128]",
}


def ptx_of(manifest: dict[str, Any]) -> str:
    """PTX with an entry for each launch of a manifest, which takes its arguments and does nothing."""
    text = f".version 8.0\n.target {manifest['target']}\n.address_size 64\n"
    for launch in (entry["attributes"] for entry in manifest["host"] if entry["op"] == "tile.launch"):
        types = [_PARAMETERS[argument["type"]] for argument in launch["arguments"]]
        parameters = ",\n".join("\t.param " + form.format(f"p{number}") for number, form in enumerate(types))
        text += f".visible .entry {launch['kernel']}(\n{parameters}\n)\n{{ ret; }}\n"
    return text


def kernel_from(manifest: dict[str, Any], cubin: bytes | None = None) -> Kernel:
    """A kernel of a manifest, with PTX that goes with it."""
    return Kernel(manifest, ptx_of(manifest), cubin)


def cubin_of(manifest: dict[str, Any]) -> bytes:
    """An ELF file as ptxas writes it, as far as the runtime reads it: header, flags, and a section per kernel."""
    kernels = {entry["attributes"]["kernel"] for entry in manifest["host"] if entry["op"] == "tile.launch"}
    return elf({f".text.{kernel}": 160 for kernel in sorted(kernels)}, manifest["target"])


def elf(sections: dict[str, int], target: str = "sm_80") -> bytes:
    """A 64-bit ELF file with sections of these names and sizes."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in [*sections, ".shstrtab"])
    table = 64 + len(names)
    entries, place = [], 1
    for name, size in sections.items():
        entries.append(struct.pack("<IIQQQQIIQQ", place, 1, 0, 0, 0, size, 0, 0, 0, 0))
        place += len(name) + 1
    entries.append(struct.pack("<IIQQQQIIQQ", place, 3, 0, 0, 64, len(names), 0, 0, 0, 0))
    flags = int(target[3:].rstrip("af")) << 8 | 4
    head = b"\x7fELF\x02\x01\x01\x41\x08".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, table, flags, 64, 0, 0, 64, len(entries), len(entries) - 1)
    return head + names + b"".join(entries)


def op(name: str, results: list[str], operands: list[str], **attributes: Any) -> dict[str, Any]:
    return {"op": name, "results": results, "operands": operands, "attributes": attributes}


def argument(
    name: str, kind: str = "matrix", dtype: str = "bf16", role: str = "input", alignment: int = 16
) -> dict[str, Any]:
    rank = {"matrix": 2, "full": 2, "per_row": 1, "per_column": 1, "scalar": 0}[kind]
    return {
        "name": name,
        "role": role,
        "kind": kind,
        "dtype": dtype,
        "shape": [None] * rank,
        "base_alignment": alignment,
        "row_stride_alignment": alignment,
    }


def sample_manifest(
    *extra: dict[str, Any], dtype: str = "bf16", acc: str = "f32", target: str = "sm_80"
) -> dict[str, Any]:
    """D = epilogue(A·Bᵀ) in 128×128 tiles; `extra` are epilogue arguments, passed to the kernel last and in order."""
    arguments = [
        argument("a", dtype=dtype),
        argument("b", dtype=dtype),
        *extra,
        argument("d", "full", dtype=dtype, role="output"),
    ]
    host = [
        op("memref.dim", ["m"], ["a"], index=0),
        op("memref.dim", ["k"], ["a"], index=1),
        op("memref.dim", ["n"], ["b"], index=0),
        op("arith.constant", ["c128"], [], value=128),
        op("arith.ceildivsi", ["tiles_m"], ["m", "c128"]),
        op("arith.ceildivsi", ["tiles_n"], ["n", "c128"]),
        op("arith.muli", ["ctas"], ["tiles_m", "tiles_n"]),
        op("arith.constant", ["c16"], [], value=16),
        op("arith.constant", ["c0"], [], value=0),
    ]
    kernel_arguments = []
    for matrix in ("a", "b", "d"):
        host += [
            op("memref.row_stride", [f"ld{matrix}"], [matrix]),
            op("memref.base_address", [f"p{matrix}"], [matrix]),
            op("arith.remsi", [f"rest_{matrix}"], [f"p{matrix}", "c16"]),
            op("arith.cmpi", [f"whole_{matrix}"], [f"rest_{matrix}", "c0"], predicate="eq"),
            op("cf.assert", [], [f"whole_{matrix}"], message=f"{matrix} must be 16-byte aligned; copy it"),
        ]
        kernel_arguments += [{"value": f"p{matrix}", "type": "ptr"}, {"value": f"ld{matrix}", "type": "i64"}]
    kernel_arguments += [{"value": dim, "type": "i32"} for dim in ("m", "n", "k")]
    for item in extra:
        if item["kind"] == "scalar":
            kernel_arguments.append({"value": item["name"], "type": element_type(item["dtype"]).ir})
        else:
            host.append(op("memref.base_address", [f"p{item['name']}"], [item["name"]]))
            kernel_arguments.append({"value": f"p{item['name']}", "type": "ptr"})
    host.append(
        op(
            "tile.launch",
            [],
            [],
            kernel="gemm_kernel",
            grid=["ctas", 1, 1],
            block=[128, 1, 1],
            cluster=None,
            shared_memory=49152,
            arguments=kernel_arguments,
        )
    )
    return {
        "format": 2,
        "lowtide": "by hand",
        "name": "gemm",
        "target": target,
        "spec": {"m": None, "n": None, "k": None, "a": dtype, "b": dtype, "d": dtype, "acc": acc, "layout": "tn"},
        "schedule": "#tile.schedule<grid = <tile = [128, 128]>, mainloop = <k = 32>>",
        "epilogue": None,
        "epilogue_program": {
            "accumulator": "x",
            "ops": [op("arith.truncf", ["y"], ["x"], type=dtype)],
            "result": "y",
        },
        "example": {"m": 70, "n": 45, "k": 33},
        "arguments": arguments,
        "host": host,
    }


PTX = ptx_of(sample_manifest())
