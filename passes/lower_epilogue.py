"""lower-epilogue: take tile.store apart into epilogue arithmetic, a pass through shared memory, and row stores.

Before   tile.store %acc into %d[%m, %n] operands(per_column %bias : …) { region } : !sm.fragment<…>, memref<…>
After    for each epilogue tile (here the whole CTA tile), with epilogue_math = registers:
           %part = sm.extract %acc[0, 0]
           %bias_n = sm.load_global (tile.view per_column %bias[%n]) : … to the accumulator's thread-value layout
           %y = sm.map %part, %bias_n { region }
           %scratch = sm.ring_reuse %ring (or sm.alloc, where the scratch is larger than the ring)
           sm.store_shared %y to %scratch; sm.barrier
           %rows = sm.load_shared %scratch : to rows of 16 bytes a thread
           sm.store_global %rows to (tile.view %d[%m, %n]); sm.barrier
         With epilogue_math = rows the accumulators go through shared memory as they are, and operands are read and the
         region applied on rows. With epilogue = direct, %y is stored from the accumulator's layout.
         The region is one sm.map in every case: what it computes is never looked at.
Needs    level atoms, tile.store on a fragment, a drained ring.
Refuses  an epilogue tile that the tiled mma or the threads cannot share; a kernel without an sm.mma_sync.
Test     test/lit/passes/lower-epilogue.mlir, lower-epilogue-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith
from tensor_layouts import Layout

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.layouts import layout_attr, tv_attr
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.atoms import EpilogueAccess, epilogue_rows, part_of, tiled_mma_of
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.kernels import is_specialized, schedule_of
from lowtide.passes.problem import Problem, buffer_bytes, element_bits, kinds_of
from lowtide.passes.rewriting import before, erase, index_constant
from lowtide.passes.schedule_rules import multiplying_threads
from lowtide.targets import Target, TiledMma

# What it reads of the schedule.
_FIELDS = ("warps", "scheduler", "epilogue", "epilogue_math", "epilogue_tile", "swizzle_d")


@dataclass(frozen=True)
class LowerEpilogue(Pass):
    """Replaces every tile.store."""

    name: ClassVar[str] = "lower-epilogue"
    needs: ClassVar[Level] = Level.ATOMS
    gives: ClassVar[Level] = Level.EPILOGUE

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in walk(module, tile.KernelOp):
            schedule = schedule_of(
                kernel, "warps", "scheduler", "epilogue", "epilogue_math", "epilogue_tile", "swizzle_d"
            )
            for store in walk(kernel, tile.StoreOp):
                if not isinstance(store.value.type, sm.FragmentType):
                    raise Refusal(store, f"stores {store.value.type}, not a fragment; run bind-mma-atoms first")
                mmas = [*walk(kernel, sm.MmaSyncOp), *walk(kernel, sm.WgmmaOp)]
                if not mmas:
                    raise Refusal(
                        store, "has no sm.mma_sync or sm.wgmma in its kernel that says how its fragment is held"
                    )
                with store.operation.location:
                    try:
                        _Epilogue(kernel, store, schedule, tiled_mma_of(mmas[0].mma)).emit()
                    except (ScheduleError, TargetError) as error:
                        raise Refusal(store, str(error)) from error


@dataclass(frozen=True)
class _Epilogue:
    """One tile.store and what the schedule says of it."""

    kernel: tile.KernelOp
    store: tile.StoreOp
    schedule: Schedule
    mma: TiledMma

    @property
    def d_element(self) -> ir.Type:
        return ir.MemRefType(self.store.d.type).element_type

    @property
    def acc_element(self) -> ir.Type:
        return self.store.value.type.element_type

    def emit(self) -> None:
        """Every part of the tile, in place of the store. Raises ScheduleError for parts that do not fit."""
        rows, columns = self.store.value.type.shape
        for element in (self.acc_element, self.d_element):
            element_bits(element)
        direct = self.schedule.epilogue == "direct"
        part_rows, part_columns = (rows, columns) if direct else self.schedule.epilogue_tile or (rows, columns)
        if rows % part_rows or columns % part_columns:
            raise ScheduleError(
                f"epilogue_tile = [{part_rows}, {part_columns}] does not divide the tile {rows}×{columns}"
            )
        with before(self.store):
            scratch = None if direct else self._scratch((part_rows, part_columns))
            for row in range(0, rows, part_rows):
                for column in range(0, columns, part_columns):
                    part = self._extract(row, column, (part_rows, part_columns))
                    origin = (_shifted(self.store.row, row), _shifted(self.store.column, column))
                    if scratch is None:
                        self._store_direct(part, origin)
                    else:
                        self._store_through(
                            scratch, part, origin, last=row + column == rows + columns - part_rows - part_columns
                        )
            # The next work tile's copies must not overtake these reads of the scratch.
            if scratch is not None and self.schedule.scheduler == "persistent":
                sm.BarrierOp()
        erase(self.store)

    def _extract(self, row: int, column: int, shape: tuple[int, int]) -> ir.Value:
        if shape == tuple(self.store.value.type.shape):
            return self.store.value
        result = _fragment(part_of(self.mma, shape).tv("c", shape), shape, self.acc_element)
        return sm.ExtractOp(result, self.store.value, [row, column]).result

    def _scratch(self, shape: tuple[int, int]) -> ir.Value:
        """The scratch buffer: the drained ring's storage where it is large enough, else a buffer of its own.

        A ring that a producer runs ahead in is never drained.
        """
        access = self._rows_access(shape)
        assert self.schedule.swizzle_d is not None
        layout = layout_attr(Layout(shape, (shape[1], 1)), self.schedule.swizzle_d)
        buffer = ir.Type.parse(
            f"memref<{shape[0]}x{shape[1]}x{access.scratch_element}, {layout}, #gpu.address_space<workgroup>>"
        )
        for ring in walk(self.kernel, sm.RingOp) if not is_specialized(self.schedule) else ():
            if buffer_bytes(buffer) <= ring_size(ring.result.type):
                return sm.RingReuseOp(buffer, ring.result).result
        with ir.InsertionPoint.at_block_begin(self.kernel.body.blocks[0]):
            return sm.AllocOp(buffer).result

    def _rows_access(self, shape: tuple[int, int]) -> EpilogueAccess:
        problem = Problem(None, None, None, "", str(self.acc_element), str(self.d_element), "tn", ())
        return epilogue_rows(self.schedule.with_(epilogue_tile=shape), problem, multiplying_threads(self.schedule))

    def _store_direct(self, part: ir.Value, origin: tuple[ir.Value, ir.Value]) -> None:
        y = self._map(part, origin)
        bytes_per_store = 2 * element_bits(self.d_element) // 8
        sm.StoreGlobalOp(y, self._window(origin, y), f"st.global.{bytes_per_store}")

    def _store_through(self, scratch: ir.Value, part: ir.Value, origin: tuple[ir.Value, ir.Value], last: bool) -> None:
        access = self._rows_access(tuple(part.type.shape))
        element = ir.Type.parse(access.scratch_element)
        bytes_of = element_bits(element) // 8
        value = self._map(part, origin) if self.schedule.epilogue_math == "registers" else part
        sm.StoreSharedOp(value, scratch, f"st.shared.{2 * bytes_of}")
        sm.BarrierOp()
        rows_type = _fragment(access.rows.tv, tuple(part.type.shape), element)
        rows = sm.LoadSharedOp(rows_type, scratch, f"ld.shared.{access.rows.vector * bytes_of}").result
        if self.schedule.epilogue_math == "rows":
            rows = self._map(rows, origin)
        sm.StoreGlobalOp(rows, self._window(origin, rows), access.rows.atom.name)
        if not last:
            sm.BarrierOp()

    def _window(self, origin: tuple[ir.Value, ir.Value], value: ir.Value) -> ir.Value:
        rows, columns = value.type.shape
        window = ir.Type.parse(f"!tile.view<{rows}x{columns}x{self.d_element}>")
        return tile.ViewOp(window, self.store.d, list(origin)).result

    def _map(self, value: ir.Value, origin: tuple[ir.Value, ir.Value]) -> ir.Value:
        """The epilogue region on a fragment, its operands loaded in the fragment's own layout."""
        inputs = [value]
        for operand, kind in zip(self.store.epilogue_operands, kinds_of(self.store), strict=True):
            inputs.append(operand if kind == "scalar" else self._load(operand, kind, origin, value.type))
        result = ir.Type.parse(
            f"!sm.fragment<{value.type.shape[0]}x{value.type.shape[1]}x{self.d_element}, {value.type.tv}>"
        )
        mapped = sm.MapOp(result, inputs)
        source = self.store.epilogue.blocks[0]
        block = mapped.body.blocks.append(*[argument.type for argument in source.arguments])
        _clone_body(source, block)
        return mapped.result

    def _load(self, operand: ir.Value, kind: str, origin: tuple[ir.Value, ir.Value], like: ir.Type) -> ir.Value:
        element = ir.MemRefType(operand.type).element_type
        rows, columns = like.shape
        window = ir.Type.parse(f"!tile.view<{rows}x{columns}x{element}>")
        offsets = {"full": list(origin), "per_row": [origin[0]], "per_column": [origin[1]]}[kind]
        kind_attr = {"full": None, "per_row": 1, "per_column": 2}[kind]
        attribute = None if kind_attr is None else ir.IntegerAttr.get(ir.IntegerType.get_signless(32), kind_attr)
        view = tile.ViewOp(window, operand, offsets, kind=attribute).result
        result = ir.Type.parse(f"!sm.fragment<{rows}x{columns}x{element}, {like.tv}>")
        # As many neighbours as a thread holds in a row, at most 16 bytes.
        run = 2 if self.schedule.epilogue_math == "registers" else self._rows_access((rows, columns)).rows.vector
        bytes_per_load = min(16, run * element_bits(element) // 8)
        return sm.LoadGlobalOp(result, view, f"ld.global.{bytes_per_load}").result


def ring_size(ring: sm.RingType) -> int:
    """Bytes of a ring's storage."""
    return ring.stages * sum(buffer_bytes(buffer) for buffer in ring.buffers)


def _fragment(tv: Layout, shape: tuple[int, int], element: ir.Type) -> ir.Type:
    return ir.Type.parse(f"!sm.fragment<{shape[0]}x{shape[1]}x{element}, {tv_attr(tv)}>")


def _shifted(value: ir.Value, by: int) -> ir.Value:
    return value if by == 0 else arith.addi(value, index_constant(by))


def _clone_body(source: ir.Block, target: ir.Block) -> None:
    """Copies every op of a straight-line region, its terminator included."""
    mapping = dict(zip(source.arguments, target.arguments, strict=True))
    with ir.InsertionPoint(target):
        for op in source.operations:
            clone = op.operation.clone()
            for position, operand in enumerate(op.operands):
                if operand in mapping:
                    clone.operands[position] = mapping[operand]
            mapping.update(zip(op.results, clone.results, strict=True))
