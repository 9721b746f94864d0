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
        "illegal-launch": Kind(WRONG, "no GPU of the target can launch the kernel like this"),
        "wrong-result": Kind(WRONG, "no rule was broken, but the arrays are not as expected"),
        "bad-input": Kind(UNKNOWN, "the PTX, the launch or the arrays are malformed, or do not fit each other"),
        "not-interpreted": Kind(UNKNOWN, "the interpreter lacks something that the kernel uses"),
        "step-budget": Kind(UNKNOWN, "a warp ran more instructions than allowed; it may run for ever"),
        "interpreter-failed": Kind(UNKNOWN, "a fault of the interpreter, which says nothing about the kernel"),
    }
)

_CODES = {
    "race": "global-race shared-race global-lanes-race shared-lanes-race mbarrier-race mbarrier-init-fence async-proxy "
    "async-proxy-reads copy-in-flight race-with-open-read race-with-read earlier-kernels cluster-cta-ended "
    "cluster-uninitialised cluster-ends-early wgmma-unwaited cp-async-unwaited store-unread phase-unwaited "
    "ptx-written-in-flight ptx-a-written ptx-accumulators-written ptx-wgmma-fence wgmma-a-fence held-registers",
    "deadlock": "agents-deadlock",
    "wrong-bytes": "bytes-unexpected pending-bytes bytes-too-late too-many-arrivals mbarrier-arrivals",
    "out-of-bounds": "out-of-bounds outside-matrices smem-outside cluster-rank multicast-mask store-granule",
    "misaligned": "misaligned-access global-misaligned box-address stored-box-address box-corner mbarrier-address "
    "descriptor-start descriptor-base-offset",
    "illegal-launch": "launched-extents launched-cluster-sides grid-size threads-per-cta smem-of-launch "
    "cluster-portable cluster-grid cluster-declared threads-declared threads-allowed registers-share warps-per-cta",
    "not-interpreted": "wrong-type torn-read pair-read pair-joined pair-arithmetic register-not-bits "
    "register-as-integer domain-lacks member-mask lanes-member-mask address-space mixed-spaces atomic-space "
    "strong-load-space",
    "bad-input": "tensor-maps-declared kernel-arguments launched-kernel launched-parameters launched-array "
    "launched-element launched-float launched-relocation launched-shape launched-strides launched-gaps encode-rank "
    "encode-extents encode-box encode-address encode-rows",
    "step-budget": "out-of-steps",
}

KIND_OF_CODE: Mapping[str, str] = MappingProxyType(
    {code: kind for kind, codes in _CODES.items() for code in codes.split()}
)


def kind_of(error: Exception) -> str:
    """The kind of an error of a run. A rule that is not listed is one of the PTX ISA's on undefined behaviour."""
    if isinstance(error, InterpreterFault):
        return "interpreter-failed"
    if isinstance(error, NotInterpreted):
        return "not-interpreted"
    if not isinstance(error, InterpreterError):
        return "bad-input"
    return KIND_OF_CODE.get(error.code or "", "undefined")


def kind_before_run(error: Exception) -> str:
    """The kind of an error of text, arrays or a launch, before anything runs."""
    kind = kind_of(error)
    return "bad-input" if kind == "undefined" else kind
