"""The kinds of verdicts on a kernel, and the kind of each rule that a kernel can break, by the rule's code."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lowtide.errors import InterpreterError, InterpreterFault, NotInterpreted

RIGHT, WRONG, UNKNOWN = 0, 1, 2
"""Exit statuses of `lowtide ptx`."""


@dataclass(frozen=True)
class Kind:
    """`status`: the exit status of the command."""

    status: int
    meaning: str


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "ok": Kind(RIGHT, "no rule was broken, or only some that hardware forgives; the arrays are as expected"),
        "race": Kind(WRONG, "two accesses that nothing orders, one of them a write"),
        "deadlock": Kind(WRONG, "some threads wait for ever"),
        "wrong-bytes": Kind(WRONG, "the bytes or arrivals of an mbarrier do not match those that it expects"),
        "out-of-bounds": Kind(WRONG, "an access outside of the arrays or of shared memory"),
        "misaligned": Kind(WRONG, "an address that is not a multiple of what the instruction needs"),
        "undefined": Kind(WRONG, "the PTX ISA leaves the behaviour undefined"),
        "trap": Kind(WRONG, "the kernel stopped itself, by a trap or a failed assertion"),
        "illegal-launch": Kind(WRONG, "no GPU of the target can launch the kernel like this"),
        "wrong-result": Kind(WRONG, "no rule was broken, but an array is not as expected within `rtol` and `atol`"),
        "bad-input": Kind(UNKNOWN, "the PTX, the launch or the arrays are malformed, or do not fit each other"),
        "not-interpreted": Kind(UNKNOWN, "the interpreter lacks something that the kernel uses"),
        "step-budget": Kind(UNKNOWN, "a warp ran more instructions than allowed; it may run for ever"),
        "time-budget": Kind(UNKNOWN, "the launches took longer than allowed"),
        "interpreter-failed": Kind(UNKNOWN, "a fault of the interpreter, which says nothing about the kernel"),
    }
)

_CODES = {
    "race": """
        async-proxy async-proxy-reads cluster-access-at-end cluster-cta-ended cluster-ends-early cluster-not-begun
        cluster-uninitialised copy-in-flight cp-async-unwaited earlier-kernels global-lanes-race global-race
        held-registers map-acquire map-in-use map-release mbarrier-busy mbarrier-in-cluster mbarrier-init-fence
        mbarrier-race phase-unwaited
        ptx-a-written ptx-accumulators-written ptx-wgmma-fence ptx-written-in-flight race-with-open-read
        race-with-read shared-lanes-race shared-race shared-word-race store-unread wgmma-a-fence wgmma-unwaited
        """,
    "deadlock": "agents-deadlock barrier-counts barrier-lanes-apart member-elsewhere member-ended",
    "wrong-bytes": """
        arrival-completes arrivals-at-once bytes-too-late bytes-unexpected mbarrier-arrivals pending-arrivals
        pending-bytes too-many-arrivals
        """,
    "out-of-bounds": """
        cluster-rank local-out-of-bounds multicast-mask out-of-bounds outside-matrices outside-pointee parameter-outside
        smem-no-variable smem-outside smem-variable store-granule
        """,
    "misaligned": """
        box-address box-corner bulk-multiple descriptor-base-offset descriptor-start global-misaligned
        map-alignment mbarrier-address misaligned-access reduced-box-address stored-box-address
        """,
    "trap": "kernel-breakpoint kernel-trap",
    "illegal-launch": """
        cluster-declared cluster-grid cluster-portable grid-size launched-cluster-sides launched-extents
        registers-share smem-negative smem-of-launch threads-allowed threads-declared threads-per-cta warps-per-cta
        """,
    "not-interpreted": """
        address-space domain-lacks mixed-spaces mma-shapes mma-types pair-arithmetic
        one-thread pair-joined pair-read register-as-integer register-not-bits torn-read uniform-values
        wgmma-shapes wrong-type
        """,
    "bad-input": """
        encode-address encode-box encode-extents encode-rank encode-rows form-in-isa kernel-arguments launched-array
        launched-element launched-float launched-gaps launched-kernel launched-map launched-parameters
        launched-relocation launched-shape launched-strides launched-struct name-unknown no-label tensor-maps-declared
        """,
    "step-budget": "out-of-steps",
    "time-budget": "out-of-time",
}

KIND_OF_CODE: Mapping[str, str] = MappingProxyType(
    {code: kind for kind, codes in _CODES.items() for code in codes.split()}
)


def kind_of(error: Exception) -> str:
    """The kind of an error of a run. A rule that is not listed is one of the PTX ISA's on undefined behaviour."""
    if isinstance(error, InterpreterFault):
        return "interpreter-failed"
    if isinstance(error, NotInterpreted) and KIND_OF_CODE.get(error.code or "") != "bad-input":
        return "not-interpreted"
    if not isinstance(error, InterpreterError):
        return "bad-input"
    return KIND_OF_CODE.get(error.code or "", "undefined")


def kind_before_run(error: Exception) -> str:
    """The kind of an error of text, arrays or a launch, before anything runs."""
    kind = kind_of(error)
    return "bad-input" if kind == "undefined" else kind
