"""Faults in the data that is accessed: indices, offsets, coordinates, masks, swizzles, layouts, predicates,
descriptors, registers."""

from lowtide.verification.mutation.edits import constant, fixed, into, number, swapped, value, word
from lowtide.verification.mutation.operators.operator import (
    CTA_LEVELS,
    INVERTED,
    THREAD_LEVELS,
    WITH_BOUND,
    Faults,
    Kind,
    Side,
    rows,
)

_ATOMS, _NVVM = ("atoms", "epilogue"), ("nvvm",)

_COORDINATES: Faults = {
    (CTA_LEVELS, r"(tile\.view %\w+\[)(%\S+), (%\S+)\]"): {"coordinates of a window swapped": into(r"\1\3, \2]")},
    (CTA_LEVELS, r"(tile\.view %\w+\[)%\w+, (%\w+)\]"): {"rows of a window from k on": into(r"\1\2, \2]")},
    (CTA_LEVELS, r"tile\.view (?P<w>%A|%B)\["): {"window of the other matrix": word({"%A": "%B", "%B": "%A"})},
    (_ATOMS, r"(sm\.zero_rows %\w+ from\()(%\w+), (%\w+)\)"): {"zeros of A and B swapped": into(r"\1\3, \2)")},
    (_ATOMS, r"(sm\.tma_load %\w+\[)(%\w+), (%\w+)\]"): {"coordinates of a box swapped": into(r"\1\3, \2]")},
    (
        CTA_LEVELS,
        r"(?P<op>(tile\.store|sm\.tma_store|sm\.store_global) \S+ (in)?to %\w+\[)(?P<m>%\w+), (?P<k>%\w+)\]",
    ): {"coordinates of D swapped": into(r"\g<op>\g<k>, \g<m>]")},
    (THREAD_LEVELS, r"box\[(?P<a>%\w+), (?P<b>%\w+)\]"): {"coordinates of a box swapped": into(r"box[\g<b>, \g<a>]")},
    (_NVVM, r"box\[%\w+, (?P<i>%\w+)\]"): {
        "a box one row further": value(
            "i", "%planted_one = arith.constant 1 : i32", "%planted = arith.addi {i}, %planted_one : i32"
        )
    },
    (CTA_LEVELS, r"(%\w+) = arith\.muli (%\w+), (%\w+) : index"): {
        "sum for a product": into(r"\1 = arith.addi \2, \3 : index")
    },
}

_MULTICASTS: Faults = {
    (_ATOMS, r"multicast\((?P<w>row|column)\)"): {
        "multicast along the other side": word({"row": "column", "column": "row"})
    },
    (THREAD_LEVELS, r"multicast_mask = (?P<c>%\w+)"): {"a multicast to fewer CTAs": constant(lambda n: n // 2)},
}

_SLOTS: Faults = {
    (CTA_LEVELS, r"sm\.ring_slot %\w+\[(?P<i>%\S+)\]"): {"slot 0 always": fixed(0), "slot 1 always": fixed(1)},
    (CTA_LEVELS, r"(sm\.ring_advance %\w+\[)(?P<i>%\S+), (?P<p>%\S+)\]"): {"a cursor that stays": fixed(0)},
    (CTA_LEVELS, r"(sm\.ldmatrix %\w+\[)(\d+), (?P<n>[1-9]\d*)\]"): {"another slice of K": number(lambda n: 0)},
    (CTA_LEVELS, r"sm\.ldmatrix .*\"ldmatrix\.x4\"(?P<w>( trans)?)(?= :)"): {
        "ldmatrix transposed": word({"": " trans", " trans": ""})
    },
    (CTA_LEVELS, r"((?:tile\.mma \w+|sm\.wgmma \w+|sm\.mma_sync) )(%\w+), (%\w+),"): {
        "A and B swapped": into(r"\1\3, \2,")
    },
    (CTA_LEVELS, r"%slot\w*, (?P<a>%a\w*), (?P<b>%b\w*) = sm\.(producer_acquire|consumer_wait)"): {
        "buffers of A and B swapped": swapped
    },
    (CTA_LEVELS, r"(?P<a>%a\w*), (?P<b>%b\w*) = sm\.ring_slot"): {"buffers of A and B swapped": swapped},
}

_LAYOUTS: Faults = {
    (("smem", "pipelined", "atoms", "epilogue"), r"^#layout\d* = #tile\.layout<.*swizzle<(?P<n>\d),"): {
        "a swizzle of fewer bits": number(lambda n: n - 1)
    },
    (_ATOMS, r"^#tv\d* = #tile\.tv<threads \([^:]*:\((?P<n>\d+)"): {"strides of threads": number(lambda n: 2 * n)},
    (_ATOMS, r"^#tv\d* = .*values \(\([^:]*:\(\((?P<n>\d+)"): {"strides of values": number(lambda n: 2 * n)},
    (_ATOMS, r"^#tv\d* = .*values \(\([^:]*:\(\((?P<a>\d+),(?P<b>\d+)"): {"two registers swapped": swapped},
    ((*CTA_LEVELS, *THREAD_LEVELS), r"sm\.tensor_map .*swizzle<(?P<n>[1-3]),3,3>", Side.HOST): {
        "another swizzle of a tensor map": number(lambda n: n - 1)
    },
    (("epilogue",), r"(sm\.ring at \[|sm\.alloc at |arrivals\(\d+\) at )(?P<n>\d+)", Side.DEVICE): {
        "8 bytes further in shared memory": number(lambda n: n + 8)
    },
    (("epilogue",), r"sm\.ring at \[\d+, (?P<n>\d+)", Side.DEVICE): {"buffers that overlap": number(lambda n: n - 128)},
    (("nvvm", "llvm"), r"alignment = (?P<n>1024) : i64", Side.DEVICE): {
        "shared memory less aligned": number(lambda n: 8)
    },
}

# In a thread's program: the ops that compute offsets, masks, swizzles and predicates.
_THREAD: Faults = {
    (_NVVM, r"arith\.(?P<w>xori) %\w+, %\w+ : i32"): {"or for a swizzle's xor": word({"xori": "ori"})},
    (_NVVM, r"arith\.(?P<w>addi|subi|shli|shrui|andi|minui|muli|remui|divui) %\w+, %\w+ : i32"): {
        "another operation on an offset": word(
            {
                "addi": "subi",
                "subi": "addi",
                "shli": "shrui",
                "shrui": "shli",
                "andi": "ori",
                "minui": "maxui",
                "muli": "addi",
                "remui": "divui",
                "divui": "remui",
            }
        )
    },
    (_NVVM, r"arith\.(shli|shrui|addi|xori|muli|minui) %\w+, (?P<c>%c\w+) : i32"): {
        "constant of an offset one more": constant(lambda n: n + 1)
    },
    (_NVVM, r"arith\.(shli|shrui|andi|addi|xori|muli) %\w+, (?P<c>%c\w+) : i32"): {
        "constant of an offset halved": constant(lambda n: n // 2)
    },
    # If the bytes of a copy are computed from the same two values, none are left at the bound: the mutant is
    # equivalent.
    (
        _NVVM,
        r"arith\.cmpi (?P<w>ult|slt|sge|uge|ugt), (?P<x>%\w+), (?P<y>%\w+) : i32"
        r"(?!(\n.*){1,3}arith\.subi (?P=y), (?P=x) )",
    ): {"predicate with its bound": word(WITH_BOUND)},
    (_NVVM, r"arith\.cmpi (?P<w>ult|eq|ne|slt|sge|uge|ugt), "): {"predicate inverted": word(INVERTED)},
    (_NVVM, r"arith\.select (%\w+), (?P<a>%\w+), (?P<b>%\w+) :"): {"sides of a select swapped": swapped},
    (_NVVM, r"= arith\.andi (%\w+), (%\w+) : i1"): {"one of two predicates alone": into(r"= arith.andi \1, \1 : i1")},
    (THREAD_LEVELS, r"llvm\.getelementptr (inbounds )?%\w+\[(?P<n>\d+)\]"): {
        "offset of an address doubled": number(lambda n: 2 * n),
        "address 16 elements further": number(lambda n: n + 16),
    },
    (THREAD_LEVELS, r"nvvm\.cp\.async\.shared\.global (%\w+), (%\w+), (\d+), cache = +(\w+), %\w+ : (.*), i32$"): {
        "copy without zero fill": into(r"nvvm.cp.async.shared.global \1, \2, \3, cache = \4 : \5")
    },
    (
        THREAD_LEVELS,
        r"= llvm\.extractvalue (%\w+)\[(?P<n>\d+)\] : !(registers\d*|llvm\.struct<\((?P<t>\w+)(, (?P=t))+\)>)",
    ): {"the register before": number(lambda n: n - 1)},
    (THREAD_LEVELS, r"nvvm\.mma\.sync A\[(?P<a>%\w+), (?P<b>%\w+)"): {"two registers of A swapped": swapped},
    (THREAD_LEVELS, r"nvvm\.mma\.sync .*B\[(?P<a>%\w+), (?P<b>%\w+)"): {"two registers of B swapped": swapped},
    (THREAD_LEVELS, r"nvvm\.wgmma\.mma_async (?P<a>%\w+), (?P<b>%\w+),"): {"descriptors of A and B swapped": swapped},
    (THREAD_LEVELS, r"A\[<\w+>, <\w+>, <(?P<w>row|col)>\]"): {
        "A transposed in wgmma": word({"row": "col", "col": "row"})
    },
    (THREAD_LEVELS, r"nvvm\.stmatrix %\w+, (?P<a>%\w+), (?P<b>%\w+),"): {"two registers of stmatrix swapped": swapped},
    (THREAD_LEVELS, r"nvvm\.(ldmatrix|stmatrix) .*layout = #nvvm\.mma_layout<(?P<w>row|col)>"): {
        "matrices transposed": word({"row": "col", "col": "row"})
    },
    (_NVVM, r"arith\.(addi|ori) %\w+, (?P<c>%c\d{4,}_i64)"): {
        "another field of a descriptor": constant(lambda n: n ^ (1 << 32)),
        "another swizzle of a descriptor": constant(lambda n: n ^ (1 << 62)),
    },
    (_NVVM, r"arith\.(addi|ori) %\w+, (?P<c>%c[246]_i64)"): {
        "descriptor of another slice of K": constant(lambda n: n + 2)
    },
    (_NVVM, r"nvvm\.mapa (%\w+), (?P<i>%\w+)"): {"arrival at CTA 0 of the cluster always": fixed(0, "i32")},
    (THREAD_LEVELS, r"(?<=nvvm\.read\.ptx\.sreg\.)(?P<w>ctaid|nctaid|clusterid|nclusterid)\.x"): {
        "another special register": word(
            {"ctaid": "nctaid", "nctaid": "ctaid", "clusterid": "nclusterid", "nclusterid": "clusterid"}
        )
    },
}

DATA = (
    *rows(Kind.DATA, _COORDINATES | _MULTICASTS | _SLOTS),
    *rows(Kind.DATA, _LAYOUTS, Side.ANYWHERE),
    *rows(Kind.DATA, _THREAD),
)
