"""Faults in the work that is done: trips of loops, work tiles, launches, copies, products, stores, the order of the
epilogue."""

from lowtide.dialects.tile import GemmLayout, RasterKind, SchedulerKind
from lowtide.verification.mutation.edits import Edit, constant, drop, fixed, into, number, twice, value, where, word
from lowtide.verification.mutation.operators.operator import (
    CTA_LEVELS,
    THREAD_LEVELS,
    Faults,
    Kind,
    Side,
    another,
    either,
    rows,
)

_OTHER = {"t": "n", "n": "t"}  # the other layout of B
_ATOMS, _NVVM = ("atoms", "epilogue"), ("nvvm",)
_DEVICE = (*CTA_LEVELS, *THREAD_LEVELS)
# Levels with the epilogue as ops on elements, or on vectors of them.
_MATH = ("problem", *CTA_LEVELS, *_NVVM)


def _trips(kind: str) -> dict[str, Edit]:
    """Edits for wrong trips of a loop whose counter has this type."""
    return {
        "a trip too few, at the end": value("high", f"%planted = arith.subi {{high}}, {{step}} : {kind}"),
        "a trip too few, at the beginning": value("low", f"%planted = arith.addi {{low}}, {{step}} : {kind}"),
        "a trip too many": where(
            r"sm\.roles|wgmma", value("high", f"%planted = arith.addi {{high}}, {{step}} : {kind}")
        ),
    }


_LOOP = r"scf\.for %\w+ = (?P<low>%\w+) to (?P<high>%\w+) step (?P<step>%\w+)"
_OTHER_ORDERS = either(set(RasterKind) - {RasterKind.row})
_LOOPS: Faults = {
    (CTA_LEVELS, _LOOP): _trips("index"),
    (_NVVM, _LOOP): _trips("i32"),
    (_NVVM, r"scf\.for .* step (?P<c>%c\w+)\b"): {"a step of two": constant(lambda n: n + 1)},
    (CTA_LEVELS, r"tile\.work_tiles \((%\w+), (%\w+)\) of \((%\w+), (%\w+)\)"): {
        "rows and columns of D swapped": into(r"tile.work_tiles (\1, \2) of (\4, \3)"),
        "rows and columns of a work tile swapped": into(r"tile.work_tiles (\2, \1) of (\3, \4)"),
    },
    (CTA_LEVELS, rf"order\(<({_OTHER_ORDERS})\b[^>]*>\)"): {"work tiles in rows": into("order(<row>)")},
    (CTA_LEVELS, rf"order\(<({RasterKind.row})\b[^>]*>\)"): {"work tiles in columns": into("order(<column>)")},
    (CTA_LEVELS, rf"tile\.work_tiles .* (?P<w>{either(SchedulerKind)})\b"): {
        "another scheduler": word(another(SchedulerKind, {SchedulerKind.one_shot}))
    },
    ((*CTA_LEVELS, *_NVVM), r"arith\.ceildivsi", Side.ANYWHERE): {"rounded down": into("arith.floordivsi")},
}

_COPIES: Faults = {
    (("smem", "pipelined"), r"^ *sm\.copy(_async)? .*$"): {"copy left out": drop},
    (_ATOMS, r"^ *sm\.(cp_async|tma_load) .*$"): {"copy left out": drop},
    (_ATOMS, r"^ *sm\.tma_load .*$"): {"copy twice": twice},
    (_ATOMS, r"^ *sm\.zero_rows .*$"): {"zeros left out": drop},
    (THREAD_LEVELS, r"^ *nvvm\.cp\.async\.(shared|bulk\.tensor)\..*$"): {"copy left out": drop},
    (THREAD_LEVELS, r"^ *nvvm\.cp\.async\.bulk\.tensor\.shared.*$"): {"copy twice": twice},
    (_ATOMS, r"^ *sm\.(store_shared|tma_store|store_global) .*$"): {"store left out": drop},
    (THREAD_LEVELS, r"^ *(llvm\.store|nvvm\.stmatrix|sm\.ptx_store) .*$"): {"store left out": drop},
}

_PRODUCTS: Faults = {
    (CTA_LEVELS, r"^( *)(%\w+)( = (tile\.mma \w+|sm\.mma_sync) \S+, \S+, )(%\w+)(.*)$"): {
        "product added twice": into(r"\1\2_first\3\5\6\n\1\2\3\2_first\6")
    },
    (CTA_LEVELS, r"(tile|sm)\.splat 0\.0+e\+00"): {"sums that begin at one": into(r"\1.splat 1.000000e+00")},
    (_NVVM, r"arith\.constant dense<0\.0+e\+00>"): {"sums that begin at one": into("arith.constant dense<1.0>")},
    (("problem", *CTA_LEVELS), rf"(tile\.gemm|tile\.mma|sm\.wgmma) (?P<w>{either(GemmLayout)}) ", Side.ANYWHERE): {
        "another layout of B": word({str(each): f"{str(each)[0]}{_OTHER[str(each)[1]]}" for each in GemmLayout})
    },
    (THREAD_LEVELS, r"D\[<f32>, <(?P<w>zero|one)>\]"): {"scale-d inverted": word({"zero": "one", "one": "zero"})},
}

_EPILOGUE: Faults = {
    (
        _MATH,
        r"^( *)(%\w+) = arith\.addf (%\w+), (%\w+) : f32\n((?: *%\w+ = arith\.constant .*\n)?)"
        r" *(%\w+) = arith\.maximumf \2, (%\w+) : f32$",
    ): {"order of the epilogue": into(r"\5\1\2 = arith.maximumf \3, \7 : f32\n\1\6 = arith.addf \2, \4 : f32")},
    (_MATH, r"arith\.addf\b"): {"difference for a sum": into("arith.subf")},
    (_MATH, r"arith\.subf\b"): {"sum for a difference": into("arith.addf")},
    (_MATH, r"arith\.mulf\b"): {"sum for a product": into("arith.addf")},
    (_MATH, r"arith\.maximumf\b"): {"minimum for a maximum": into("arith.minimumf")},
}

# Checks of operands by the host function before it launches anything.
_ASSERTIONS: Faults = {
    (_DEVICE, r"^ *cf\.assert .*$"): {"assertion left out": drop},
    (_DEVICE, r"arith\.cmpi (?P<w>eq), %\w+, %\w+ : index(?=\n *cf\.assert )"): {
        "assertion inverted": word({"eq": "ne"}),
        "assertion of less": word({"eq": "sge"}),
    },
}

_LAUNCHES: Faults = {
    (_DEVICE, r"threads\((?P<n>\d+)\)"): {
        "a warp fewer": number(lambda n: n - 32),
        "a warp more": number(lambda n: n + 32),
    },
    (_DEVICE, r"shared_memory\((?P<n>\d+)\)"): {"too little shared memory": number(lambda n: n - 16)},
    (_DEVICE, r"tile\.launch @\w+ grid\((?P<i>%\w+)\)"): {"grid of one CTA": where("scheduler = one_shot", fixed(1))},
    (_DEVICE, r"(args\()(%\w+), (%\w+),"): {
        "two arguments swapped": where(r"^(?!.*sm\.tensor_map)", into(r"\1\3, \2,"))
    },
    (_DEVICE, r"sm\.tensor_map (?P<w>%arg0|%arg1) "): {
        "tensor map of the other matrix": word({"%arg0": "%arg1", "%arg1": "%arg0"})
    },
}

_REGISTERS: Faults = {
    (CTA_LEVELS, r"registers\((?P<n>\d+)\)"): {"eight registers more": number(lambda n: n + 8)},
    (THREAD_LEVELS, r"nvvm\.setmaxregister +increase (?P<n>\d+)"): {
        "more registers than there are": number(lambda n: n + 16)
    },
    (THREAD_LEVELS, r"nvvm\.setmaxregister +decrease (?P<n>\d+)"): {"registers kept": number(lambda n: n + 64)},
    (THREAD_LEVELS, r"nvvm\.maxnreg = (?P<n>\d+)"): {"more registers than an SM has": number(lambda n: 2 * n)},
}

WORK = (
    *rows(Kind.WORK, _LOOPS | _COPIES | _PRODUCTS),
    *rows(Kind.WORK, _EPILOGUE, Side.ANYWHERE),
    *rows(Kind.WORK, _ASSERTIONS | _LAUNCHES, Side.HOST),
    *rows(Kind.WORK, _REGISTERS),
)
