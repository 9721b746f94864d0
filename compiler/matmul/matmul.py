"""`lt.matmul(a, b)`: a repeated call is one lookup in a table; a new one checks everything."""

from typing import Any

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.matmul.arrangement import result_record
from lowtide.compiler.matmul.calls import Calls, Epilogue
from lowtide.compiler.matmul.explanation import Explanation
from lowtide.compiler.matmul.family import result_type
from lowtide.compiler.matmul.kernels import Kernels, Wanted, chosen_alone
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.numerics_words import REPEATABLE
from lowtide.runtime import driver
from lowtide.runtime.allocation import allocate
from lowtide.runtime.call_keys import Recent
from lowtide.runtime.kernel import Prepared
from lowtide.runtime.operands import Operand, view
from lowtide.runtime.plan import LaunchPlan, NoLaunch
from lowtide.runtime.streams import after_writers, handle_of, stream_of

_MOST_CALLS = 256
#: Raised by the key of a call and by allocators for objects that are not strided torch tensors
_NOT_TORCH = (AttributeError, TypeError, RuntimeError)


class Matmul:
    """The function `lt.matmul`, with its kernels and previous calls. Threads may share it."""

    def __init__(self) -> None:
        self._kernels = Kernels()
        self._calls = Recent(_MOST_CALLS)  # by epilogue, options and names of operands

    def __call__(
        self,
        a: Any,
        b: Any,
        *,
        epilogue: Epilogue | None = None,
        out: Any = None,
        numerics: str = REPEATABLE,
        precision: str | None = None,
        weights: str | None = None,
        block_scales: BlockScales | None = None,
        tuned: bool = True,
        alone: bool = False,
        stream: Any = None,
        **operands: Any,
    ) -> Any:
        """D (…, M, N) = epilogue(A (…, M, K) · B (…, K, N), operands…), on GPU arrays of any layout.

        Element types, layout, alignment, batch and shape are taken from the arrays. `out`: the array to write, of any
        element type that the kernel can store; by default torch or CuPy allocates a contiguous D of A's type (bf16 for
        8-bit floats, s32 for integers). `numerics`: "any", "repeatable" or "batch_invariant" (docs/numerics.md).
        `precision`: for products of f32, "f32", "tf32", "tf32x3" or "bf16x6", as in `GemmSpec`. `weights`: "s8", "u8",
        "s4", "u4" or "e4m3"; B is then the transpose of the result of `lt.pack_weights`, bytes of shape (K, N), or (K,
        N / 2) for 4 bits, and `scales` and `zeros` (K / group, N) are operands. `block_scales`: `lt.BlockScales`, with
        operands `scale_a` and `scale_b`. `tuned`: use the schedule that `lt.tune` found on this model of GPU for this
        shape, if it keeps the numerics and `LOWTIDE_TUNED=off` is not set. `alone`: take the kernel that `compile_gemm`
        makes for this shape alone, not one of the few that serve all M. Each new shape then compiles a kernel. It has
        no effect with "batch_invariant". `stream`: as in a kernel's call. The launch is asynchronous.

        Raises LaunchError for arrays that do not fit, and if autograd would record the call; SpecError for an epilogue
        that cannot be traced, and for options that are invalid or do not fit the operands; DeviceError without a GPU;
        and what `compile_gemm` raises, if the kernel must be compiled (see `explain`).
        """
        asked = (epilogue, numerics, precision, weights, block_scales, tuned, alone, *operands)
        try:
            calls: Calls | None = self._calls[asked]
        except TypeError:  # what cannot be hashed is no valid option: it is refused below
            calls = None
        if calls is None:
            options = Options(numerics, precision, weights, block_scales, tuned, alone)
            calls = self._calls[asked] = Calls(epilogue, options, tuple(operands))
        d = out
        try:
            if d is None:
                d = calls.makers[a.shape, b.shape, a.dtype, b.dtype, a.device]()
            key = calls.of((a, b, d, *operands.values()))
            launch, context = calls.launches[key] or calls.known(key), key[0]
        except _NOT_TORCH:
            launch = None
        if launch is None:
            return self._first(calls, [a, b, out, *operands.values()], stream)
        launch.run(launch.follow() if stream is None else handle_of(stream), context)
        return d

    def known(
        self,
        a: Any,
        b: Any,
        out: Any,
        *,
        epilogue: Epilogue | None,
        numerics: str,
        precision: str | None,
        alone: bool,
        **operands: Any,
    ) -> tuple[Prepared | NoLaunch | None, LaunchPlan | None]:
        """The launch of an earlier call on torch tensors with the same addresses, strides and arguments, on any stream,
        and a plan for other addresses that are multiples of 16 bytes where these are: of A, B, D and the operands. None
        if there is none."""
        asked = (epilogue, numerics, precision, None, None, True, alone, *operands)
        calls: Calls | None = self._calls[asked]
        if calls is None:
            return None, None
        try:
            key = calls.of((a, b, out, *operands.values()))
        except _NOT_TORCH:
            return None, None
        return calls.launches[key], calls.plan_of(key)

    def begin(
        self,
        records: dict[str, Operand],
        *,
        epilogue: Epilogue | None,
        numerics: str,
        precision: str | None,
        alone: bool,
    ) -> None:
        """Have another process compile the kernel of a call with the arrays `records`: "a", "b", "d", and the operands.
        Does nothing if `AHEAD` (compiler/ahead.py) was not started. Raises the errors of a call."""
        names = tuple(name for name in records if name not in ("a", "b", "d"))
        options = Options(numerics, precision, alone=alone)
        of, m, device, _ = Calls(epilogue, options, names).placed(records)
        self._kernels.begin(Wanted(of, m, epilogue, device, options.is_alone))

    def explain(
        self,
        a: Any,
        b: Any,
        *,
        epilogue: Epilogue | None = None,
        out: Any = None,
        numerics: str = REPEATABLE,
        precision: str | None = None,
        weights: str | None = None,
        block_scales: BlockScales | None = None,
        tuned: bool = True,
        alone: bool = False,
        **operands: Any,
    ) -> Explanation:
        """The family of such a call, the schedule of its M, and whether the kernel is in memory, on disk, or must be
        compiled.

        Nothing is compiled or launched. Raises as a call does.
        """
        calls = Calls(epilogue, Options(numerics, precision, weights, block_scales, tuned, alone), tuple(operands))
        records = calls.records([a, b, out, *operands.values()], None)
        if out is None:
            records["d"] = _wanted(records, calls.options)
        of, m, device, _ = calls.placed(records)
        wanted = Wanted(of, m, epilogue, device if tuned else None, calls.options.is_alone)
        found = self._kernels.where(wanted)
        differs, broken = ("", "") if found.plan is None else chosen_alone(wanted, found.plan)
        return Explanation(of, m, of.example(epilogue, m), found, differs, broken)

    def _first(self, calls: Calls, values: list[Any], stream: Any) -> Any:
        """A call with a new key: check all arrays as records, then store the data for further calls like it."""
        calls.check_autograd(values)
        handle = stream_of(values[0]) if stream is None else handle_of(stream)
        records = calls.records(values, handle)
        is_allocated = values[2] is None
        if is_allocated:
            wanted, library = _wanted(records, calls.options), records["a"].library
            given = None if stream is None else handle
            values[2] = allocate(values[0], library, wanted.shape, wanted.dtype, 1, given)
            records["d"] = view(values[2], "out", handle)
        of, m, device, lying = calls.placed(records)
        options = calls.options
        kernel = self._kernels.get(Wanted(of, m, calls.epilogue, device if options.tuned else None, options.is_alone))
        launch, plan = kernel.prepare(lying, calls.scalars(values))
        if all(record.library == "torch" for record in records.values()):
            calls.remember(values, launch, None if kernel.program.placed else plan)
            if is_allocated:
                calls.remember_maker(values[0], values[1], records["d"])
        if not isinstance(launch, NoLaunch):
            writers = [record.stream for record in lying.values() if record.stream is not None]
            launch.run(after_writers(launch.context, writers, handle), driver.api().cuCtxGetCurrent()[1])
        return values[2]


def _wanted(records: dict[str, Operand], options: Options) -> Operand:
    """The record of a contiguous D for a call without `out`, without an address."""
    a, b = records["a"], records["b"]
    return result_record(a, b, result_type(a.dtype, options.weights or b.dtype), options.columns_per_byte)


driver.import_bindings()  # at import, so that the first call is not slowed down
matmul = Matmul()
