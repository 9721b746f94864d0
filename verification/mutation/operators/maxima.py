"""Faults in the largest absolute value of D: in the launch that clears it, and in the ops that raise it."""

from lowtide.verification.mutation.edits import drop, into
from lowtide.verification.mutation.operators.operator import CTA_LEVELS, THREAD_LEVELS, Kind, Operator, Side, rows

_RED = r"red\.relaxed\.gpu\.global\.max\.u32"

MAXIMA: tuple[Operator, ...] = (
    *rows(
        Kind.WORK,
        {
            ((*CTA_LEVELS, *THREAD_LEVELS), r"^ *tile\.launch @\w+_clear .*$", Side.HOST): {"amax not cleared": drop},
            (
                (*CTA_LEVELS, *THREAD_LEVELS),
                r"(?P<clear> *tile\.launch @\w+_clear .*\n)(?P<kernel>(.*\n)*? *tile\.launch @\w+_kernel .*\n)",
                Side.HOST,
            ): {"amax cleared behind the kernel": into(r"\g<kernel>\g<clear>")},
        },
    ),
    *rows(
        Kind.DATA,
        {(CTA_LEVELS[:-1], r"(tile\.yield %\w+, )%\w+( : \w+, f32)$"): {"amax of the accumulator": into(r"\1%acc\2")}},
    ),
    *rows(Kind.WORK, {(("epilogue", "nvvm"), r"^ *sm\.(ptx_)?raise_max .*$"): {"amax not raised": drop}}),
    *rows(
        Kind.DATA,
        {
            (("nvvm",), r"= math\.absf (?P<x>%\w+) : f32(?=\n(?:.*\n){0,3}? *%\w+ = arith\.maximumf )"): {
                "value for its absolute value": into(r"= arith.addf \g<x>, \g<x> : f32")
            },
            (("llvm", "ptx"), r"setp\.eq\.u32 first, lane, 0"): {
                "amax of no lane": into("setp.eq.u32 first, lane, 32")
            },
        },
    ),
    *rows(Kind.ORDER, {(("llvm", "ptx"), _RED): {"amax stored and not raised": into("st.global.b32")}}),
)
