"""Faults in the addressing of matrices: packing of unaligned ones, the index of the matrix in a batch or of a group of
rows, the ends of groups, and the halves of pairs of columns."""

from lowtide.verification.mutation.edits import constant, drop, fixed, into, number, swapped
from lowtide.verification.mutation.operators.operator import CTA_LEVELS, THREAD_LEVELS, Faults, Kind, Side, rows

_PROBLEM, _DEVICE = ("problem",), (*CTA_LEVELS, *THREAD_LEVELS)

_AS_PACKED: Faults = {
    (_PROBLEM, r"^ *tile\.unpack .*$"): {"D not copied out": drop},
    (_PROBLEM, r"tile\.pack %\w+ align\((?P<n>\d+)\)"): {"packed for narrower accesses": number(lambda n: n // 2)},
    (_PROBLEM, r"(tile\.pack %\w+ align\(\d+\)) :"): {"an input not copied": into(r"\1 uninitialized :")},
}

# Of the host function: which matrices are packed, where to, and by which launches.
_LAUNCHES: Faults = {
    (_DEVICE, r"arith\.select %\w+, (?P<a>%\w+), (?P<b>%\w+) : memref"): {"packed and given matrix exchanged": swapped},
    (_DEVICE, r"arith\.select %\w+, (?P<a>%\w+), (?P<b>%c0\w*) : index"): {
        "packed where it is aligned, and nowhere else": swapped
    },
    (_DEVICE, r"arith\.remui %\w+, (?P<c>%c\w+) : index(?=(\n.*){1,2}arith\.ori )"): {
        "less alignment asked": constant(lambda n: n // 2)
    },
    (_DEVICE, r"arith\.ori (%\w+), (%\w+) : index"): {
        "the base alone is tested": into(r"arith.ori \1, \1 : index"),
        "the row stride alone is tested": into(r"arith.ori \2, \2 : index"),
    },
    (
        _DEVICE,
        r"(?P<op>memref\.reinterpret_cast %\w+ to offset: \[0\], sizes: \[)(?P<m>%\w+), (?P<k>%\w+)\], "
        r"strides: \[(?P<s>%\w+), 1\]",
    ): {
        "rows of a workspace one behind the other": into(r"\g<op>\g<m>, \g<k>], strides: [\g<k>, 1]"),
        "rows and columns of a workspace swapped": into(r"\g<op>\g<k>, \g<m>], strides: [\g<s>, 1]"),
    },
    (_DEVICE, r"strides: \[(?P<a>%[\w#]+), (?P<b>%[\w#]+), 1\] : .* to memref<2x"): {
        "strides of two matrices exchanged": swapped
    },
    (_DEVICE, r"tile\.workspace (?P<i>%\w+) : memref<\?xbf16>"): {"a workspace without memory": fixed(0)},
    (_DEVICE, r"^ *tile\.launch @\w+_copy_\w+ .*$"): {"copy of a matrix left out": drop},
    (_DEVICE, r"(tile\.launch @\w+_copy_\w+ .*args\()(?P<a>%\w+), (?P<b>%\w+)\)"): {
        "copy of a matrix the other way": swapped
    },
    (_DEVICE, r"^( *tile\.launch @\w+_kernel .*\n)((?:.*\n)*?)( *tile\.launch @\w+_copy_\w+ .*\n)"): {
        "D copied out before it is computed": into(r"\2\3\1")
    },
}

_IN_KERNELS: Faults = {
    (CTA_LEVELS, r"(tile\.view|sm\.tma_load) %\w+\[(?P<i>%batch\w*), "): {"a window of matrix 0": fixed(0)},
    (CTA_LEVELS, r"(tile\.store|sm\.tma_store|sm\.store_global) .*to %\w+\[(?P<i>%batch\w*), "): {
        "stored to matrix 0": fixed(0)
    },
    (CTA_LEVELS, r"tile\.work_tiles .* batch\((%\w+) of (?P<i>%\w+)\)"): {"work items of one matrix": fixed(1)},
    (CTA_LEVELS, r"(tile\.view|sm\.tma_load) %\w+\[(?:%c0\w*, )?(?P<i>%group\w*), "): {
        "a window of the first group's matrix": fixed(0)
    },
    (CTA_LEVELS, r"(memref\.subview %\w+\[)(?P<i>%group\w*), 0\]"): {"the vector of the first group": fixed(0)},
    (CTA_LEVELS, r"(memref\.subview %\w+\[0, 0(?:, 0)?\] \[(?:%\w+, )?)%rows_end(\w*), "): {
        "the rows of a group end where the tile begins": into(r"\1%m\2, ")
    },
    (
        ("nvvm",),
        r"(= llvm\.load .* -> i32\n(?:.*shfl\.sync .*\n)? *%\w+ = arith\.maxsi )(%\w+), (%\w+) :",
    ): {"an end before the end before": into(r"\1\2, \2 :")},
    (("nvvm",), r"(= arith\.maxsi .*\n *%\w+ = arith\.minsi )(%\w+), (%\w+) :"): {
        "an end beyond the rows": into(r"\1\2, \2 :")
    },
    (CTA_LEVELS, r"(tile\.view .*\]) halves :"): {"both halves of one matrix": into(r"\1 :")},
    (CTA_LEVELS, r"\^bb0\((?P<a>%acc\w*): \w+, (?P<b>%acc\w*): \w+"): {"accumulators of pairs exchanged": swapped},
    (CTA_LEVELS, r"tile\.prepare (?P<a>%\w+) from (?P<b>%\w+) :"): {"a copy the other way": swapped},
}

PLACES = (
    *rows(Kind.DATA, _AS_PACKED, Side.HOST),
    *rows(Kind.DATA, _LAUNCHES, Side.HOST),
    *rows(Kind.DATA, _IN_KERNELS),
)
