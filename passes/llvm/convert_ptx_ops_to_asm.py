"""convert-ptx-ops-to-asm: write the instructions that the nvvm dialect lacks as inline assembly.

Before   %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<(f32, f32)>
         sm.ptx_store streaming %v to %p : vector<8xbf16>, !llvm.ptr<1>
After    %c = llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 0;", "=f,=f,0,1" … -> !llvm.struct<…>
         llvm.inline_asm has_side_effects "st.global.cs.v4.b32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r,~{memory}" …
         sm.ptx_semaphore_arrive becomes red.release.gpu, sm.ptx_semaphore_wait a loop of ld.acquire.gpu,
         sm.ptx_semaphore_leave red.inc; sm.ptx_raise_max redux.sync.max and, of one lane, red.max.
         sm.ptx_wgmma becomes wgmma.mma_async with a vector of registers for A.
         sm.ptx_replace_map becomes tensormap.replace, sm.ptx_copy_map tensormap.cp_fenceproxy.
         sm.ptx_await_wave becomes an atom.inc and a bounded loop of loads. sm.ptx_await_arrival becomes a loop of
         ld.acquire.sys with a time limit and, before TMA loads, a fence.proxy.async; sm.ptx_read_status an
         ld.relaxed.sys; sm.ptx_tell_last an atom.acq_rel.gpu and a st.release.sys; sm.ptx_keep_pair an
         nvvm.shfl.sync, sm.ptx_mask_or a lop3. An sm.ptx_wgmma_wait whose result nobody reads becomes an
         nvvm.wgmma.wait.group.sync.aligned.
Needs    level nvvm.
Refuses  registers that are not a struct of f32 or of i32; stores of a size other than 2, 4, 8 or 16 bytes, of
         unsupported elements, or with a hint that st.global does not have.
Test     test/lit/passes/llvm/convert-ptx-ops-to-asm.mlir, convert-ptx-ops-to-asm-invalid.mlir
"""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from mlir import ir
from mlir.dialects import llvm, nvvm, vector

from lowtide import targets
from lowtide.dialects import sm
from lowtide.dialects.enums import cache_hint_of
from lowtide.dialects.tile import CacheHint
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.rewriting import before, erase, replace
from lowtide.passes.support.problem.element_types import element_bits, element_name
from lowtide.targets import Target

# Cache operators by hint (PTX ISA, "Cache Operators").
_OPERATORS = {CacheHint.streaming: "cs", CacheHint.write_through: "wt"}
# By the bytes of a store: the PTX type, the type and number of its registers, and their constraint.
_STORES = {
    1: ("b8", 8, 1, "h"),
    2: ("b16", 16, 1, "h"),
    4: ("b32", 32, 1, "r"),
    8: ("v2.b32", 32, 2, "r"),
    16: ("v4.b32", 32, 4, "r"),
}
_NARROWEST_REGISTER = 16  # bits, of which a store may take the lower ones

# Polls of a wave. A poll takes about 0.5 µs on an H200, so that a CTA that is far behind costs the others 30 µs a wave.
_POLLS = 64
# `missing` counts those who begin after this CTA. Once the counter is set to zero, `seen` wraps to a large number.
_AWAIT_WAVE = f"""{{
.reg .pred more;
.reg .b32 last, own, missing, seen, polls;
sub.u32 last, $1, 1;
atom.relaxed.gpu.global.inc.u32 own, [$0], last;
rem.u32 missing, own, $2;
sub.u32 missing, $2, missing;
sub.u32 missing, missing, 1;
add.u32 own, own, 1;
add.u32 last, own, missing;
setp.gt.u32 more, last, $1;
@more bra DONE;
mov.u32 polls, {_POLLS};
POLL:
ld.relaxed.gpu.global.u32 seen, [$0];
sub.u32 seen, seen, own;
setp.lt.u32 more, seen, missing;
sub.u32 polls, polls, 1;
setp.ne.and.u32 more, polls, 0, more;
@more bra POLL;
DONE:
}}"""


# ns that a thread sleeps before it reads a flag again; it sees the flag at most this much later.
_SLEEP = 64
# $0 is 0 once the flag $1 reaches the epoch $2; 1 if $3 ms pass first, or if the status $4 is set. The thread that sets
# it writes the shard $5, the number in the flag and the epoch behind it.
_AWAIT_ARRIVAL = f"""{{
.reg .pred ends;
.reg .b32 seen, ahead, old;
.reg .b64 start, now, limit;
mov.u64 start, %globaltimer;
mul.wide.u32 limit, $3, 1000000;
POLL:
ld.acquire.sys.global.b32 seen, [$1];
sub.s32 ahead, seen, $2;
mov.b32 $0, 0;
setp.ge.s32 ends, ahead, 0;
@ends bra DONE;
mov.b32 $0, 1;
ld.relaxed.sys.global.b32 old, [$4];
setp.ne.b32 ends, old, 0;
@ends bra DONE;
mov.u64 now, %globaltimer;
sub.u64 now, now, start;
setp.ge.u64 ends, now, limit;
@ends bra LATE;
nanosleep.u32 {_SLEEP};
bra POLL;
LATE:
atom.relaxed.sys.global.cas.b32 old, [$4], 0, 1;
setp.ne.b32 ends, old, 0;
@ends bra DONE;
st.global.b32 [$4+4], $5;
st.global.b32 [$4+8], seen;
st.global.b32 [$4+12], $2;
DONE:
}}"""
_FENCE = "\nfence.proxy.async;"


# The CTA that finds $1 in the counter $0 is the last one, and sets it to 0. It writes the epoch $3 to the flag $2.
_TELL_LAST = """{
.reg .pred is_last;
.reg .b32 before;
atom.acq_rel.gpu.global.inc.u32 before, [$0], $1;
setp.eq.u32 is_last, before, $1;
@is_last st.release.sys.global.b32 [$2], $3;
}"""


# The fields of a tensor map, with the bits of their values (PTX ISA, "tensormap.replace").
_MAP_FIELDS = {
    "global_address": 64,
    "rank": 32,
    "box_dim": 32,
    "global_dim": 32,
    "global_stride": 64,
    "element_stride": 32,
    "elemtype": 32,
    "interleave_layout": 32,
    "swizzle_mode": 32,
    "fill_mode": 32,
}
_COPY_MAP = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [$0], [$1], 128;"

# Values that are not negative, or NaN, are in the order of their bits. One lane of each warp changes the word.
_RAISE_MAX = """{
.reg .pred first;
.reg .b32 most, lane;
mov.b32 most, $1;
redux.sync.max.u32 most, most, 0xffffffff;
mov.u32 lane, %laneid;
setp.eq.u32 first, lane, 0;
@first red.relaxed.gpu.global.max.u32 [$0], most;
}"""

# A label is that of its braces, so that the assembly may stand several times in a function.
_WAIT = """{
.reg .pred again;
.reg .b32 found;
AGAIN:
ld.acquire.gpu.global.s32 found, [$0];
setp.lt.s32 again, found, $1;
@again bra AGAIN;
}"""


@dataclass(frozen=True)
class ConvertPtxOpsToAsm(Pass):
    """Replaces every sm.ptx_… op."""

    name: ClassVar[str] = "convert-ptx-ops-to-asm"

    def run(self, module: ir.Module, target: Target) -> None:
        for wait in walk(module, sm.PtxWgmmaWaitOp):
            with before(wait), wait.operation.location:
                parts = _registers_of(wait)
                replace(wait, [_wait_through_registers(wait, parts) if _is_read(wait) else _wait_alone(wait)])
        for product in walk(module, sm.PtxWgmmaOp):
            with before(product), product.operation.location:
                replace(product, [_wgmma(product)])
        for pair in walk(module, sm.PtxKeepPairOp):
            with before(pair), pair.operation.location:
                replace(pair, [_kept(pair.value)])
        for op in walk(module, sm.PtxMaskOrOp):
            with before(op), op.operation.location:
                replace(op, [_masked(op)])
        for op in walk(module, sm.PtxRoundOp):
            with before(op), op.operation.location:
                replace(op, [_rounded(op)])
        for store in walk(module, sm.PtxStoreOp):
            with before(store), store.operation.location:
                _store_with_operator(store)
            erase(store)
        for arrive in walk(module, sm.PtxSemaphoreArriveOp):
            with before(arrive), arrive.operation.location:
                _assembly("red.release.gpu.global.add.s32 [$0], 1;", [_address(arrive.pointer)], "l")
            erase(arrive)
        for wait in walk(module, sm.PtxSemaphoreWaitOp):
            with before(wait), wait.operation.location:
                _assembly(_WAIT, [_address(wait.pointer), wait.count], "l,r")
            erase(wait)
        for leave in walk(module, sm.PtxSemaphoreLeaveOp):
            with before(leave), leave.operation.location:
                _assembly("red.relaxed.gpu.global.inc.u32 [$0], $1;", [_address(leave.pointer), leave.last], "l,r")
            erase(leave)
        for raised in walk(module, sm.PtxRaiseMaxOp):
            with before(raised), raised.operation.location:
                _assembly(_RAISE_MAX, [_address(raised.pointer), raised.value], "l,f")
            erase(raised)
        for field in walk(module, sm.PtxReplaceMapOp):
            with before(field), field.operation.location:
                _replace_in_map(field)
            erase(field)
        for copy in walk(module, sm.PtxCopyMapOp):
            with before(copy), copy.operation.location:
                _assembly(_COPY_MAP, [_address(copy.target), _shared_address(copy.source)], "l,r")
            erase(copy)
        for wait in walk(module, sm.PtxAwaitWaveOp):
            with before(wait), wait.operation.location:
                _await_wave(wait)
            erase(wait)
        for arrival in walk(module, sm.PtxAwaitArrivalOp):
            with before(arrival), arrival.operation.location:
                _await_arrival(arrival)
        for tell in walk(module, sm.PtxTellLastOp):
            with before(tell), tell.operation.location:
                operands = [_address(tell.counter), tell.last, _address(tell.flag), tell.epoch]
                _assembly(_TELL_LAST, operands, "l,r,l,r")
            erase(tell)
        for read in walk(module, sm.PtxReadStatusOp):
            with before(read), read.operation.location:
                _read_status(read)


def _await_arrival(wait: sm.PtxAwaitArrivalOp) -> None:
    """A loop of acquiring loads, and a fence if TMA reads what they acquire."""
    i32, i1 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(1)
    operands = [_address(wait.flag), wait.epoch, wait.limit, _address(wait.status), wait.shard]
    text = _AWAIT_ARRIVAL + (_FENCE if wait.for_tma else "")
    late = llvm.InlineAsmOp(i32, operands, text, "=&r,l,r,r,l,r,~{memory}", has_side_effects=True).res
    replace(wait, [llvm.TruncOp(i1, late, llvm.IntegerOverflowFlags.none).result])


def _read_status(read: sm.PtxReadStatusOp) -> None:
    i32 = ir.IntegerType.get_signless(32)
    text, operands = "ld.relaxed.sys.global.b32 $0, [$1];", [_address(read.status)]
    replace(read, [llvm.InlineAsmOp(i32, operands, text, "=r,l,~{memory}", has_side_effects=True).res])


def _address(pointer: ir.Value) -> ir.Value:
    return llvm.PtrToIntOp(ir.IntegerType.get_signless(64), pointer).result


def _shared_address(pointer: ir.Value) -> ir.Value:
    return llvm.PtrToIntOp(ir.IntegerType.get_signless(32), pointer).result


def _replace_in_map(op: sm.PtxReplaceMapOp) -> None:
    """tensormap.replace of a map in shared memory."""
    name = op.field.value
    if name not in _MAP_FIELDS or (op.value is None) == (op.immediate is None):
        raise Refusal(
            op,
            f"sets the field {name} of a tensor map; give a value or an immediate for one of "
            f"{', '.join(_MAP_FIELDS)} [map-field]",
        )
    dim = "" if op.dim is None else f" {op.dim.value},"
    value = "$1" if op.immediate is None else str(op.immediate.value)
    text = f"tensormap.replace.tile.{name}.shared::cta.b1024.b{_MAP_FIELDS[name]} [$0],{dim} {value};"
    operands = [_shared_address(op.pointer), *([] if op.value is None else [op.value])]
    _assembly(text, operands, ",".join(["r", *({32: "r", 64: "l"}[_MAP_FIELDS[name]] for _ in operands[1:])]))


def _assembly(text: str, operands: list[ir.Value], constraints: str) -> None:
    """Assembly that orders memory: no access moves across it."""
    llvm.InlineAsmOp(None, operands, text, f"{constraints},~{{memory}}", has_side_effects=True)


# The letter of inline assembly for registers of a type.
_REGISTERS: dict[type[ir.Type], str] = {ir.F32Type: "f", ir.IntegerType: "r"}
_REGISTER_BITS = 32


def _is_read(wait: sm.PtxWgmmaWaitOp) -> bool:
    return next(iter(wait.result.uses), None) is not None


def _wait_alone(wait: sm.PtxWgmmaWaitOp) -> ir.Value:
    """The wait of an epilogue that ignores the sums. LLVM may copy assembly into both sides of a branch."""
    nvvm.WgmmaWaitGroupSyncOp(wait.pending)
    return wait.acc


def _registers_of(wait: sm.PtxWgmmaWaitOp) -> list[ir.Type]:
    """The types of the registers of the sums. Raises Refusal."""
    parts = list(wait.acc.type.body) if isinstance(wait.acc.type, llvm.StructType) else []
    if len(set(parts)) != 1 or _letter(parts[0]) is None or element_bits(parts[0]) != _REGISTER_BITS:
        raise Refusal(wait, f"threads a struct of f32 or of i32 registers, not {wait.acc.type} [wait-registers]")
    return parts


def _letter(of: ir.Type) -> str | None:
    return next((letter for kind, letter in _REGISTERS.items() if isinstance(of, kind)), None)


def _wait_through_registers(wait: sm.PtxWgmmaWaitOp, parts: list[ir.Type]) -> ir.Value:
    """Every register is an input and an output, so that its reads stay after the wait."""
    registers = [llvm.ExtractValueOp(part, wait.acc, [i]).result for i, part in enumerate(parts)]
    constraints = ",".join([f"={_letter(parts[0])}"] * len(parts) + [str(i) for i in range(len(parts))])
    text = f"wgmma.wait_group.sync.aligned {wait.pending.value};"
    if len(parts) == 1:  # LLVM has a single output as it is, not in a struct
        waited = llvm.InlineAsmOp(parts[0], registers, text, constraints, has_side_effects=True).res
        return llvm.InsertValueOp(llvm.UndefOp(wait.acc.type).res, waited, [0]).res
    return llvm.InlineAsmOp(wait.acc.type, registers, text, constraints, has_side_effects=True).res


def _kept(value: ir.Value) -> ir.Value:
    """The value, read by its own lane. This is no assembly, which LLVM may copy into both sides of a branch."""
    i32 = ir.IntegerType.get_signless(32)
    all_lanes, own, last = (llvm.mlir_constant(ir.IntegerAttr.get(i32, number)) for number in (-1, 0, 31))
    return nvvm.ShflOp(i32, all_lanes, value, own, last, nvvm.ShflKind.bfly).res


def _masked(op: sm.PtxMaskOrOp) -> ir.Value:
    """lop3, whose table is what it computes of the numbers below."""
    x, mask, bits = 0xF0, 0xCC, 0xAA
    table = ((~x if op.inverted else x) & mask | bits) & 0xFF
    numbers = (int(number.value) & 0xFFFFFFFF for number in (op.mask, op.bits))
    text = "lop3.b32 $0, $1, {:#x}, {:#x}, {:#x};".format(*numbers, table)
    return llvm.InlineAsmOp(op.value.type, [op.value], text, "=r,r").res


def _wgmma(op: sm.PtxWgmmaOp) -> ir.Value:
    """wgmma.mma_async with A in registers. Accumulators that are cleared are outputs alone."""
    atom = targets.mma_atom(op.atom.value)
    parts = list(op.acc.type.body)
    letter = next(letter for kind, letter in _REGISTERS.items() if isinstance(parts[0], kind))
    outputs, before_it = [f"={letter}"] * len(parts), []
    if not op.clears:
        before_it = [llvm.ExtractValueOp(part, op.acc, [i]).result for i, part in enumerate(parts)]
    held = [*before_it, *op.a, op.b]
    constraints = [*outputs, *map(str, range(len(before_it))), *["r"] * len(op.a), "l"]
    first = len(parts) + len(before_it)
    acc, a = (", ".join(f"${i}" for i in places) for places in (range(len(parts)), range(first, first + len(op.a))))
    # The further operands: A and B are not negated; whether a B of 16 bits is transposed.
    turned = "" if atom.k_is_contiguous else f", {1 if op.transposed else 0}"
    text = f"""{{
.reg .pred p;
setp.ne.b32 p, {0 if op.clears else 1}, 0;
{atom.ptx} {{{acc}}}, {{{a}}}, ${first + len(op.a)}, p, 1, 1{turned};
}}"""
    return llvm.InlineAsmOp(op.acc.type, held, text, ",".join(constraints), has_side_effects=True).res


def _rounded(op: sm.PtxRoundOp) -> ir.Value:
    """cvt.rna, which makes registers of 32 bits alone."""
    name = element_name(ir.TypeAttr(op.to).value)
    if element_type(name).storage is None:
        raise Refusal(op, f"rounds to a type that is stored with more bits, such as tf32, not to {name} [round-type]")
    return llvm.InlineAsmOp(op.value.type, [op.value], f"cvt.rna.{element_type(name).ptx}.f32 $0, $1;", "=f,f").res


def _store_with_operator(store: sm.PtxStoreOp) -> None:
    """st.global.cs or .wt of the value's bits."""
    hint = cache_hint_of(store)
    if hint not in _OPERATORS:
        raise Refusal(store, f"has the hint {hint}; st.global has streaming and write_through [store-hint]")
    size = _bytes(store)
    if size not in _STORES:
        raise Refusal(
            store, f"is a store of {size} bytes; st.global.cs and .wt store 1, 2, 4, 8 or 16 [store-operator-bytes]"
        )
    kind, bits, count, constraint = _STORES[size]
    i64, register = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(bits)
    address = llvm.PtrToIntOp(i64, store.pointer).result
    if count == 1:
        registers = [llvm.BitcastOp(register, store.value).result]
        if bits < _NARROWEST_REGISTER:
            registers = [llvm.ZExtOp(ir.IntegerType.get_signless(_NARROWEST_REGISTER), registers[0]).result]
        value = "$1"
    else:
        whole = llvm.BitcastOp(ir.VectorType.get([count], register), store.value).result
        registers = [vector.ExtractOp(whole, [], [i]).result for i in range(count)]
        value = "{" + ", ".join(f"${1 + i}" for i in range(count)) + "}"
    llvm.InlineAsmOp(
        None,
        [address, *registers],
        f"st.global.{_OPERATORS[hint]}.{kind} [$0], {value};",
        ",".join(["l", *[constraint] * count, "~{memory}"]),
        has_side_effects=True,
    )


def _await_wave(wait: sm.PtxAwaitWaveOp) -> None:
    """atom.inc, then a bounded loop of loads; braces give names and labels their own scope."""
    address = llvm.PtrToIntOp(ir.IntegerType.get_signless(64), wait.counter).result
    llvm.InlineAsmOp(None, [address, wait.tiles, wait.ctas], _AWAIT_WAVE, "l,r,r,~{memory}", has_side_effects=True)


def _bytes(store: sm.PtxStoreOp) -> int:
    type_ = store.value.type
    vector_type = type_ if isinstance(type_, ir.VectorType) else None
    count = prod(vector_type.shape) if vector_type is not None else 1
    try:
        return count * element_bits(vector_type.element_type if vector_type is not None else type_) // 8
    except ScheduleError as error:
        raise Refusal(store, str(error)) from error
