"""Faults in PTX text: the same kinds as at the levels above, in instructions and registers."""

from lowtide.verification.mutation.edits import at_first, backward, drop, into, number, swapped, twice, word
from lowtide.verification.mutation.operators.operator import Faults, Kind, Operator, rows, statement

_PTX = ("ptx",)
# Instructions on lines of their own, and their faults.
_ORDER = (
    ("barrier", r"(bar|barrier)\.sync\b.*;", "dropped later earlier"),
    ("wait for cp.async", r"cp\.async\.wait_group\b.*;", "dropped later"),
    ("commit of cp.async", r"cp\.async\.commit_group;", "dropped earlier"),
    ("mbarrier arrival", r"mbarrier\.arrive\b.*;", "dropped earlier twice"),
    ("start of an mbarrier", r"mbarrier\.init\b.*;", "dropped twice"),
    ("fence after the start of mbarriers", r"fence\.mbarrier_init\b.*;", "dropped first"),
    ("fence of the async proxy", r"fence\.proxy\.async\b.*;", "dropped later earlier"),
    ("wait for TMA stores", r"cp\.async\.bulk\.wait_group\b.*;", "dropped later"),
    ("commit of TMA stores", r"cp\.async\.bulk\.commit_group;", "dropped earlier"),
    ("commit of wgmma", r"wgmma\.commit_group\b.*;", "dropped earlier"),
    ("wait for wgmma", r"wgmma\.wait_group\b.*;", "dropped"),
    ("wait for earlier kernels", r"griddepcontrol\.wait;", "dropped"),
    ("arrival at the cluster barrier", r"barrier\.cluster\.arrive\b.*;", "dropped twice"),
    ("wait for the cluster barrier", r"barrier\.cluster\.wait\b.*;", "dropped"),
    ("semaphore arrival", r"red\.release\b.*;", "dropped twice"),
    ("return of registers", r"setmaxnreg\.dec\b.*;", "dropped"),
)
_POLL = r"^\t// begin inline asm\n\t\{\n(?:(?!\t// end).*\n)*?.*try_wait\.parity\S* P1, \[%r\d+\], (?P<p>%r\d+), .*\n"
_DETAILS: Faults = {
    # Later ones follow sums in flight of the same shape, which need no fence.
    (_PTX, r"^\s*wgmma\.fence\b.*;\s*$"): {"fence of wgmma dropped": at_first(r"wgmma\.fence", drop)},
    (
        _PTX,
        r"(cp\.async\.wait_group|cp\.async\.bulk\.wait_group(\.read)?|wgmma\.wait_group\.sync\.aligned)\s+(?P<n>\d+)",
    ): {"one group more in flight": number(lambda n: n + 1)},
    (_PTX, rf"{_POLL}(?:.*\n)*?\t// end inline asm$"): {"mbarrier wait dropped": drop},
    (
        _PTX,
        r"\.reg \.pred\s+P1;\s*\n(?P<l>\s*LAB_WAIT:\s*\n)"
        r"(?P<w>\s*mbarrier\.try_wait\.parity\S* P1, \[%r\d+\], )(%r\d+)",
    ): {
        "parity of a wait flipped": into(
            r".reg .pred P1;\n\t.reg .b32 planted;\n\txor.b32 planted, \3, 1;\n\g<l>\g<w>planted"
        )
    },
    (_PTX, r"mov\.b32\s+(?P<r>%r\d+), (?P<n>\d+);(?=\n\s*mbarrier\.init\S*\s+\[[^\]]*\], (?P=r);)"): {
        "one arrival too many per phase": number(lambda n: n + 1)
    },
    (_PTX, r"mov\.b32\s+(?P<r>%r\d+), (?P<n>\d+);(?=\n\s*mbarrier\.arrive\.expect_tx\S* \S+ \[[^\]]*\], (?P=r);)"): {
        "half of the bytes expected": number(lambda n: n // 2),
        "16 bytes more expected": number(lambda n: n + 16),
    },
}

_WORK: Faults = {
    (_PTX, r"^\s*(cp\.async\.c[ag]\b|cp\.async\.bulk\.tensor\b).*;$"): {"copy left out": drop},
    (_PTX, r"^\s*cp\.async\.bulk\.tensor\.\dd\.shared.*;$"): {"copy twice": twice},
    (_PTX, r"^\s*(st\.(shared|global)|stmatrix)\b.*;$"): {"store left out": drop},
    (_PTX, r"setp\.ne\.b32 p, (%r\d+|\d), 0;"): {"scale-d inverted": into(r"setp.eq.b32 p, \1, 0;")},
    # A loop's last instructions: the comparison of its counter with a bound, and the branch back.
    (_PTX, r"^\tsetp\.(?:lt|ge|ne|eq)\.[su]32 \t(?P<p>%p\d+), %r\d+, (?P<n>\d+)(?=;\n\t@(?P=p) bra \t(?P<l>\$\w+);)"): {
        "another bound of a loop": backward(number(lambda n: n + 1))
    },
    (
        _PTX,
        r"^(?P<head>\tsetp\.(?:lt|ge)\.s32 \t(?P<p>%p\d+), %r\d+, )(?P<bound>%r\d+);"
        r"(?=\n\t@(?P=p) bra \t(?P<l>\$\w+);)",
    ): {
        "a trip too few, at the end": backward(
            into(r"\t{\n\t.reg .b32 planted;\n\tsub.s32 planted, \g<bound>, 1;\n\g<head>planted;\n\t}")
        )
    },
    (
        _PTX,
        r"^\tadd\.rn\.(?P<t>f32|f64) \t(?P<sum>%\w+), (?P<acc>%\w+), (?P<bias>%\w+);\n(?P<between>(?:.*\n)*?)"
        r"\t(?P<max>max\S*) \t(?P<d>%\w+), (?P=sum), (?P<zero>0\w+);$",
    ): {
        "order of the epilogue": into(
            r"\t\g<max> \t\g<sum>, \g<acc>, \g<zero>;\n\g<between>"
            r"\tadd.rn.\g<t> \t\g<d>, \g<sum>, \g<bias>;"
        )
    },
    (_PTX, r"setmaxnreg\.dec\S*\s+(?P<n>\d+)"): {"registers kept": number(lambda n: n + 64)},
    (_PTX, r"setmaxnreg\.inc\S*\s+(?P<n>\d+)"): {"more registers than there are": number(lambda n: n + 16)},
    (_PTX, r"(?P<w>add|sub|mul|max|min|fma)(?=(\.rn)?\.(f32|bf16x2|f64)\s)"): {
        "another operation of the epilogue": word({"add": "sub", "sub": "add", "max": "min", "min": "max"})
    },
}

_DATA: Faults = {
    (_PTX, r"^(\s*)@(%p\d+) "): {"predicate inverted": into(r"\1@!\2 ")},
    (_PTX, r"setp\.(?P<w>lt|ge|gt|le|eq|ne)\."): {
        "another comparison": word({"lt": "gt", "ge": "lt", "gt": "lt", "le": "gt", "eq": "ne", "ne": "eq"})
    },
    (_PTX, r"(?<=\t)(?P<w>add|sub|shl|shr|and|or|xor|min|mul\.lo|div|rem)(?=\.[usb](32|64)\s)"): {
        "another operation on an offset": word(
            {
                "add": "sub",
                "sub": "add",
                "shl": "shr",
                "shr": "shl",
                "and": "or",
                "or": "and",
                "xor": "or",
                "min": "max",
                "div": "rem",
                "rem": "div",
            }
        )
    },
    (_PTX, r"(add|shl|shr|xor|or|min|mul\.lo|mad\.lo)\.[usb](32|64)\s.*, (?P<n>\d+);"): {
        "constant of an offset one more": number(lambda n: n + 1)
    },
    (_PTX, r"\tand\.b32\s.*, (?P<n>\d+);"): {"mask halved": number(lambda n: n // 2)},
    (_PTX, r"(shared|st\.global|\.v[24]).*\[[^\]]*\+(?P<n>\d+)\]"): {
        "address 16 bytes further": number(lambda n: n + 16)
    },
    (_PTX, r"(add|sub|xor|or|mul\.lo)\.[usb]32\s+%r\d+, %r(?P<n>\d+),"): {"register before": number(lambda n: n - 1)},
    (_PTX, r"mma\.sync\S*\s+\{[^}]*\},\s*\{\s*(?P<a>%r\d+), (?P<b>%r\d+),"): {"two registers of A swapped": swapped},
    (_PTX, r"selp\.\w+\s+%\w+, (?P<a>[%\w]+), (?P<b>[%\w]+), %p"): {"sides of a select swapped": swapped},
    (_PTX, r"ldmatrix\.sync\.aligned\.m8n8\.x4(?P<w>(\.trans)?)(?=\.shared)"): {
        "matrices transposed": word({"": ".trans", ".trans": ""})
    },
    (_PTX, r"stmatrix\.sync\.aligned\S*\s+\[[^\]]*\], \{(?P<a>%r\d+), (?P<b>%r\d+)"): {
        "two registers of stmatrix swapped": swapped
    },
    (_PTX, r"(?s:wgmma\.mma_async\S*\s+\{[^}]*\}),\s*(?P<a>%rd\d+),\s*(?P<b>%rd\d+)"): {
        "descriptors of A and B swapped": swapped
    },
    (_PTX, r"\t(or|add)\.[bs]64\s.*, (?P<n>\d{15,});"): {
        "another field of a descriptor": number(lambda n: n ^ (1 << 32)),
        "another swizzle of a descriptor": number(lambda n: n ^ (1 << 62)),
        "descriptor of another slice of K": number(lambda n: n ^ 2),
    },
    (_PTX, r"\tmov\.b16\s+(?P<r>%rs\d+), (?P<n>\d+);(?=(?:.*\n)*?.*multicast::cluster.*(?P=r);)"): {
        "a multicast to fewer CTAs": number(lambda n: n // 2)
    },
    (_PTX, r"\{(?P<a>%r\d+), (?P<b>%r\d+)\}\]"): {"coordinates of a box swapped": swapped},
    (_PTX, r"mov\.u32\s+%r\d+, %(?P<w>tid\.x|ctaid\.x|nctaid\.x)"): {
        "another special register": word({"tid.x": "ctaid.x", "ctaid.x": "nctaid.x", "nctaid.x": "ctaid.x"})
    },
}


PTX: tuple[Operator, ...] = (
    *(
        operator
        for what, pattern, words in _ORDER
        for operator in statement(what, words, _PTX, rf"^\s*(@!?%p\d+ )?{pattern}\s*$")
    ),
    *rows(Kind.ORDER, _DETAILS),
    *rows(Kind.WORK, _WORK),
    *rows(Kind.DATA, _DATA),
)
