"""Faults of kernels on several ranks: in the waits for shards, and in the flags and counts of a kernel that sends."""

from lowtide.verification.mutation.edits import fixed, into
from lowtide.verification.mutation.operators.operator import CTA_LEVELS, Faults, Kind, Operator, rows

_FAULTS: Faults = {
    (CTA_LEVELS, r"tile\.await_arrival (?P<i>%\w+) of"): {"wait for shard 0 always": fixed(0)},
    (("nvvm",), r"(sm\.ptx_await_arrival .*) for_tma"): {"fence behind the wait for a shard dropped": into(r"\1")},
    (("llvm", "ptx"), r"st\.release\.sys\.global\.b32 \["): {
        "flag of a sent shard written at the scope of a GPU": into("st.release.gpu.global.b32 ["),
        "flag of a sent shard written without a release": into("st.relaxed.sys.global.b32 ["),
    },
    (("llvm", "ptx"), r"atom\.acq_rel\.gpu\.global\.inc"): {
        "CTAs that have sent counted in no order": into("atom.relaxed.gpu.global.inc"),
    },
    (("llvm", "ptx"), r"ld\.acquire\.sys\.global\.b32 seen"): {
        "flag read at the scope of a GPU": into("ld.acquire.gpu.global.b32 seen"),
        "flag read without an acquire": into("ld.relaxed.sys.global.b32 seen"),
    },
}

RANKS: tuple[Operator, ...] = rows(Kind.ORDER, _FAULTS)
