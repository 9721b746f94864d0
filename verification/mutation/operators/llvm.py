"""Faults in level llvm: the same kinds as at level nvvm, in another notation.

Structured loops have become blocks and branches, arithmetic is the LLVM dialect's, and instructions without an nvvm op
are inline assembly. Rows that fit both levels are in `order`, `work` and `data`.
"""

from lowtide.verification.mutation.edits import (
    LLVM,
    constant,
    drop,
    fixed,
    flipped,
    into,
    later,
    number,
    swapped,
    twice,
    value,
    where,
    word,
)
from lowtide.verification.mutation.operators.operator import INVERTED, WITH_BOUND, Faults, Kind, rows

_LEVEL = ("llvm",)
_ASSEMBLY = r"llvm\.inline_asm [^\n]*"
# The last operands of a wgmma: descriptors of A and B, scale-d, the signs of A and B, whether A and B are transposed.
_WGMMA = (
    rf"{_ASSEMBLY}wgmma\.mma_async[^\n]*, (?P<a>%\w+), (?P<b>%\w+), (?P<scale>%\w+), %\w+, %\w+, (?P<t>%\w+), %\w+ :"
)

_ORDER: Faults = {
    (_LEVEL, rf"^ *{_ASSEMBLY}mbarrier\.try_wait.*$"): {"mbarrier wait dropped": drop, "mbarrier wait later": later},
    (_LEVEL, rf'{_ASSEMBLY}mbarrier\.try_wait\.parity[^\n]*"r,r,n" %\w+, (?P<p>%\w+),'): {
        "parity of a wait flipped": flipped("i32", LLVM)
    },
    (_LEVEL, rf"^ *{_ASSEMBLY}ld\.acquire.*$"): {"semaphore wait dropped": drop},
    (_LEVEL, rf"{_ASSEMBLY}ld\.acquire[^\n]*\" %\w+, (?P<i>%\w+) :"): {
        "semaphore awaited up to 0": fixed(0, "i32", LLVM)
    },
    (_LEVEL, rf"^ *{_ASSEMBLY}red\.release.*$"): {"semaphore arrival dropped": drop, "semaphore arrival twice": twice},
    (_LEVEL, r"wgmma\.wait_group\.sync\.aligned (?P<n>\d+)"): {
        "one group of wgmma more in flight": number(lambda n: n + 1)
    },
    (_LEVEL, r"nvvm\.barrier id = (?P<i>%\w+) number_of_threads = %\w+"): {
        "all warpgroups at one barrier": where(r"consumer = <warps = (?!4, instances = 1\b)", fixed(7, "i32", LLVM))
    },
}

_WORK: Faults = {
    # A loop is a block that compares its first argument with a bound.
    (_LEVEL, r'\^bb\d+\((?P<iv>%\w+): i32.*\n *%\w+ = llvm\.icmp "slt" (?P=iv), (?P<high>%\w+) : i32'): {
        "a trip too few, at the end": value(
            "high", f"%planted_one = {LLVM.constant(1, 'i32')}", "%planted = llvm.sub {high}, %planted_one : i32"
        ),
        "a trip too many": where(
            r"consumer = <|wgmma\.mma_async",
            value(
                "high", f"%planted_one = {LLVM.constant(1, 'i32')}", "%planted = llvm.add {high}, %planted_one : i32"
            ),
        ),
    },
    (_LEVEL, r"llvm\.add %\w+, (?P<c>%\w+) : i32\n *llvm\.br "): {"a step of two": constant(lambda n: n + 1)},
    (_LEVEL, r"llvm\.mlir\.constant\(dense<0\.0+e\+00>"): {
        "sums that begin at one": into("llvm.mlir.constant(dense<1.0>")
    },
    (_LEVEL, _WGMMA.replace("scale", "c")): {"scale-d inverted": constant(lambda n: 1 - n)},
    (_LEVEL, r"^( *)(%\w+) = llvm\.fadd (%\w+), (%\w+) : (.*)\n *(%\w+) = llvm\.intr\.maximum\(\2, (%\w+)\) : (.*)$"): {
        "order of the epilogue": into(r"\1\2 = llvm.intr.maximum(\3, \7) : \8\n\1\6 = llvm.fadd \2, \4 : \5")
    },
    (_LEVEL, r"llvm\.fadd\b"): {"difference for a sum": into("llvm.fsub")},
    (_LEVEL, r"llvm\.fsub\b"): {"sum for a difference": into("llvm.fadd")},
    (_LEVEL, r"llvm\.fmul\b"): {"sum for a product": into("llvm.fadd")},
    (_LEVEL, r"llvm\.intr\.maximum\b"): {"minimum for a maximum": into("llvm.intr.minimum")},
}

_OFFSETS = {
    "add": "sub",
    "sub": "add",
    "shl": "lshr",
    "lshr": "shl",
    "and": "or",
    "mul": "add",
    "urem": "udiv",
    "udiv": "urem",
}

_DATA: Faults = {
    (_LEVEL, r"llvm\.(?P<w>xor) %\w+, %\w+ : i32"): {"or for a swizzle's xor": word({"xor": "or"})},
    (_LEVEL, rf"llvm\.(?P<w>{'|'.join(_OFFSETS)}) %\w+, %\w+ : i32"): {
        "another operation on an offset": word(_OFFSETS)
    },
    (_LEVEL, r"llvm\.intr\.(?P<w>umin)\("): {"another operation on an offset": word({"umin": "umax"})},
    (_LEVEL, r"llvm\.(shl|lshr|add|xor|mul) %\w+, (?P<c>%\w+) : i32"): {
        "constant of an offset one more": constant(lambda n: n + 1)
    },
    (_LEVEL, r"llvm\.(shl|lshr|and|add|xor|mul) %\w+, (?P<c>%\w+) : i32"): {
        "constant of an offset halved": constant(lambda n: n // 2)
    },
    # If the bytes of a copy are computed from the same two values, none are left at the bound: the mutant is
    # equivalent.
    (
        _LEVEL,
        r'llvm\.icmp "(?P<w>ult|slt|sge|uge|ugt)" (?P<x>%\w+), (?P<y>%\w+) : i32'
        r"(?!(\n.*){1,3}llvm\.sub (?P=y), (?P=x) )",
    ): {"predicate with its bound": word(WITH_BOUND)},
    (_LEVEL, r'llvm\.icmp "(?P<w>ult|eq|ne|slt|sge|uge|ugt)" '): {"predicate inverted": word(INVERTED)},
    (_LEVEL, r"llvm\.select (%\w+), (?P<a>%\w+), (?P<b>%\w+) :"): {"sides of a select swapped": swapped},
    (_LEVEL, r"= llvm\.and (%\w+), (%\w+) : i1"): {"one of two predicates alone": into(r"= llvm.and \1, \1 : i1")},
    (_LEVEL, r"llvm\.cond_br (%\w+), (?P<a>\^bb\d+), (?P<b>\^bb\d+)"): {"sides of a branch swapped": swapped},
    (_LEVEL, _WGMMA): {"descriptors of A and B swapped": swapped},
    (_LEVEL, _WGMMA.replace("<t>", "<c>")): {"A transposed in wgmma": constant(lambda n: 1 - n)},
    (_LEVEL, r"llvm\.(add|or) %\w+, (?P<c>%\w+) : i64"): {
        "another field of a descriptor": constant(lambda n: n ^ (1 << 32) if n > 1 << 60 else n),
        "another swizzle of a descriptor": constant(lambda n: n ^ (1 << 62) if n > 1 << 60 else n),
        "descriptor of another slice of K": constant(lambda n: n + 2 if n in (2, 4, 6) else n),
    },
    (_LEVEL, r"nvvm\.mapa (%\w+), (?P<i>%\w+)"): {"arrival at CTA 0 of the cluster always": fixed(0, "i32", LLVM)},
    (_LEVEL, r"box\[%\w+, (?P<i>%\w+)\]"): {
        "a box one row further": value(
            "i", f"%planted_one = {LLVM.constant(1, 'i32')}", "%planted = llvm.add {i}, %planted_one : i32"
        )
    },
    (_LEVEL, r"llvm\.insertelement (?P<a>%\w+), %\w+\[.*\n *%\w+ = llvm\.insertelement (?P<b>%\w+), "): {
        "two registers swapped": swapped
    },
}

LLVM_ROWS = (*rows(Kind.ORDER, _ORDER), *rows(Kind.WORK, _WORK), *rows(Kind.DATA, _DATA))
