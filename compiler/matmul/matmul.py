"""`lt.matmul(a, b)`: a call like one before takes one look into a table; a new one takes the long way, all checked."""

from typing import Any

from lowtide.compiler.matmul.arrangement import result_record
from lowtide.compiler.matmul.explanation import Explanation
from lowtide.compiler.matmul.family import Epilogue, Family
from lowtide.compiler.matmul.kernels import Kernels
from lowtide.compiler.matmul.shape_class import result_type
from lowtide.runtime import driver
from lowtide.runtime.allocation import allocate
from lowtide.runtime.call_keys import Recent
from lowtide.runtime.operands import Operand, view
from lowtide.runtime.plan import NoLaunch
from lowtide.runtime.streams import after_writers, handle_of, stream_of

_MOST_FAMILIES = 256
#: What reading the key of a call raises for objects that are no strided torch tensors, and calling no allocator
_NOT_TORCH = (AttributeError, TypeError, RuntimeError)


class Matmul:
    """The function `lt.matmul`, with the kernels and calls that it has met. Threads may share it."""

    def __init__(self) -> None:
        self._kernels = Kernels()
        self._families = Recent(_MOST_FAMILIES)  # by epilogue, numerics and names of operands

    def __call__(
        self,
        a: Any,
        b: Any,
        *,
        epilogue: Epilogue | None = None,
        out: Any = None,
        numerics: str = "repeatable",
        stream: Any = None,
        **operands: Any,
    ) -> Any:
        """D (…, M, N) = epilogue(A (…, M, K) · B (…, K, N), operands…), on GPU arrays as they lie.

        Element types, layout, alignment, batch and shape are read off the arrays. `out`: where D goes, of any element
        type that the kernel can store; without it D is allocated by torch or CuPy, contiguous, of A's type (bf16 for
        8-bit floats, s32 for integers). `numerics`: "any", "repeatable" or "batch_invariant" (docs/numerics.md).
        `stream`: as in a kernel's call. The launch is asynchronous.

        Raises LaunchError for arrays that do not fit, also where autograd would record the call; SpecError for an
        epilogue that cannot be traced, or numerics that are none; DeviceError without a GPU; and what `compile_gemm`
        raises where a kernel is compiled: for a new class of shapes (`explain` says which).
        """
        asked = (epilogue, numerics, *operands)
        family: Family | None = self._families[asked]
        if family is None:
            family = self._families[asked] = Family(epilogue, numerics, tuple(operands))
        d = out
        try:
            if d is None:
                d = family.makers[a.shape, b.shape, a.dtype, b.dtype, a.device]()
            key = family.of((a, b, d, *operands.values()))
            launch, context = family.launches[key] or family.known(key), key[0]
        except _NOT_TORCH:
            launch = None
        if launch is None:
            return self._first(family, [a, b, out, *operands.values()], stream)
        launch.run(launch.follow() if stream is None else handle_of(stream), context)
        return d

    def explain(
        self,
        a: Any,
        b: Any,
        *,
        epilogue: Epilogue | None = None,
        out: Any = None,
        numerics: str = "repeatable",
        **operands: Any,
    ) -> Explanation:
        """The class of such a call, and whether its kernel is in memory, on disk, or must be compiled.

        Nothing is compiled or launched. Raises as a call does.
        """
        family = Family(epilogue, numerics, tuple(operands))
        records = family.records([a, b, out, *operands.values()], None)
        if out is None:
            records["d"] = _wanted(records)
        of, _ = family.classified(records)
        where, kernel = self._kernels.where(of, epilogue)
        manifest = {} if kernel is None else kernel.manifest
        return Explanation(of, where, manifest.get("schedule"), manifest.get("summation"))

    def _first(self, family: Family, values: list[Any], stream: Any) -> Any:
        """The long way: each array as a record, all checked; then what a call like it needs is kept."""
        family.check_autograd(values)
        handle = stream_of(values[0]) if stream is None else handle_of(stream)
        records = family.records(values, handle)
        is_allocated = values[2] is None
        if is_allocated:
            wanted, library = _wanted(records), records["a"].library
            given = None if stream is None else handle
            values[2] = allocate(values[0], library, wanted.shape, wanted.dtype, 1, given)
            records["d"] = view(values[2], "out", handle)
        of, lying = family.classified(records)
        kernel = self._kernels.get(of, family.epilogue)
        launch, plan = kernel.prepare(lying, family.scalars(values))
        if all(record.library == "torch" for record in records.values()):
            family.remember(values, launch, None if kernel.program.placed else plan)
            if is_allocated:
                family.remember_maker(values[0], values[1], records["d"])
        if not isinstance(launch, NoLaunch):
            writers = [record.stream for record in lying.values() if record.stream is not None]
            launch.run(after_writers(launch.context, writers, handle), driver.api().cuCtxGetCurrent()[1])
        return values[2]


def _wanted(records: dict[str, Operand]) -> Operand:
    """A contiguous D where none is given, without an address."""
    a, b = records["a"], records["b"]
    return result_record(a, b, result_type(a.dtype, b.dtype))


matmul = Matmul()
