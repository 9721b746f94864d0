"""The forms of instructions on values and of strong accesses: which modifiers go with which types (PTX ISA, "Syntax" of
each instruction).

An instruction may only have words that its row knows. A line here says which of them go together. ptxas 13.0 accepts
the same forms, in any order of the modifiers.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType

_RND, _IRND, _BOOL = "rn|rz|rm|rp", "rni|rzi|rmi|rpi", "{and|or|xor}"
_UNSIGNED, _SIGNED, _BITS = "u16|u32|u64", "s16|s32|s64", "b16|b32|b64"
_INTEGERS = f"{_UNSIGNED}|{_SIGNED}"
_ALL_INTEGERS = f"u8|s8|{_INTEGERS}"
_COMPARED = "eq|ne|lt|le|gt|ge"
_MOVED = f"{_BITS}|{_INTEGERS}|f32|f64"
_SPACES = "const|global|local|param|param::entry|shared|shared::cta|shared::cluster"
_UNSIGNED_COMPARED = f"{_COMPARED}|lo|ls|hi|hs"
_FLOATS_COMPARED = f"{_COMPARED}|equ|neu|ltu|leu|gtu|geu|num|nan"


def _clamped() -> Iterator[str]:
    """cvt.sat between integers: only if the type of the result does not hold all values of the operand's."""
    types = _ALL_INTEGERS.split("|")
    for target in types:
        bits, is_signed = int(target[1:]), target[0] == "s"
        beyond = [
            each for each in types if (int(each[1:]) >= bits and each != target) or (each[0] == "s" and not is_signed)
        ]
        yield f"sat {target} {'|'.join(beyond)}"


_SUMS = (
    f"{{{_RND}}} {{ftz}} {{sat}} f32",
    f"{{{_RND}}} f64",
    f"{{{_RND}}} {{ftz}} f32x2",
    "{rn} {ftz} {sat} f16|f16x2",
    "{rn} bf16|bf16x2",
)
_ADDED = ("u16|u32|u64|s16|s64", "{sat} s32", *_SUMS, f"{{{_RND}}} {{sat}} f32 f16|bf16")
_EXTREMA = (
    "u16|u32|u64|s16|s64|u16x2|f64",
    "{relu} s32|s16x2",
    "{ftz} {NaN} f32|f16|f16x2",
    "{ftz} {NaN} xorsign abs f32|f16|f16x2",
    "{ftz} {NaN} abs f32",  # of three operands
    "{NaN} bf16|bf16x2",
    "{NaN} xorsign abs bf16|bf16x2",
)
_CARRIES = ("u32|s32|u64|s64",)
_DOTS = ("u32|s32 u32|s32",)
_PER_LANE = ("{add} u32|s32 u32|s32 u32|s32",)
_SCOPE = "cta|cluster|gpu|sys"
_SPACE = "{global|shared|shared::cta|shared::cluster|local|const}"  # a row says which
_L1 = "{L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate}"
_EVICTED = f"{_L1} {{L2::evict_normal|L2::evict_first|L2::evict_last}} {{L2::cache_hint}}"
_FETCHED = "{L2::64B|L2::128B|L2::256B}"
_LOADED = f"{{v2|v4|v8}} b8|s8|u8|{_BITS}|{_INTEGERS}|f32|f64"
_ROUNDED = ("approx {ftz} f32", f"{_RND} {{ftz}} f32")
_APPROXIMATE = ("approx {ftz} f32",)

FORMS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "add": (*_ADDED, "u16x2|s16x2"),
        "sub": _ADDED,
        "mul": _SUMS,
        "fma": (
            f"{_RND} {{ftz}} {{sat}} f32",
            f"{_RND} f64",
            f"{_RND} {{ftz}} f32x2",
            "rn {ftz} {sat} f16|f16x2",
            "rn {ftz} {relu} f16|f16x2",
            f"{_RND} {{relu}} bf16|bf16x2",
            f"{_RND} {{sat}} f32 f16|bf16",
        ),
        "mad": (f"{_RND} {{ftz}} {{sat}} f32", f"{_RND} f64"),
        "mad.hi": ("u16|u32|u64|s16|s64", "{sat} s32"),
        "mad24.hi": ("u32", "{sat} s32"),
        "div": (_INTEGERS, "approx|full {ftz} f32", f"{_RND} {{ftz}} f32", f"{_RND} f64"),
        **dict.fromkeys(("min", "max"), _EXTREMA),
        "neg": (f"{_SIGNED}|f64|bf16|bf16x2", "{ftz} f32|f16|f16x2"),
        "abs": (f"{_SIGNED}|f64|bf16|bf16x2", "{ftz} f32|f16|f16x2"),
        **dict.fromkeys(("addc", "addc.cc", "add.cc", "subc", "subc.cc", "sub.cc"), _CARRIES),
        **dict.fromkeys(("mad.lo.cc", "mad.hi.cc", "madc.lo", "madc.hi", "madc.lo.cc", "madc.hi.cc"), _CARRIES),
        **dict.fromkeys(("dp4a", "dp2a.lo", "dp2a.hi"), _DOTS),
        **dict.fromkeys(("vabsdiff2", "vabsdiff4"), _PER_LANE),
        "bfind": ("{shiftamt} u32|s32|u64|s64",),
        "szext": ("clamp|wrap u32|s32",),
        "bmsk": ("clamp|wrap b32",),
        **dict.fromkeys(("shf.l", "shf.r"), ("clamp|wrap b32",)),
        "lop3": ("{and|or} b32",),
        "prmt": ("{f4e|b4e|rc8|ecl|ecr|rc16} b32",),
        "rcp": (*_ROUNDED, "approx ftz f64", f"{_RND} {{ftz}} f64"),
        "sqrt": (*_ROUNDED, f"{_RND} f64"),
        "rsqrt": ("approx {ftz} f32|f64",),
        **dict.fromkeys(("sin", "cos", "lg2"), _APPROXIMATE),
        "ex2": (*_APPROXIMATE, "approx f16|f16x2", "approx ftz bf16|bf16x2"),
        "tanh": ("approx f32|f16|f16x2|bf16|bf16x2",),
        "testp": ("finite|infinite|number|notanumber|normal|subnormal f32|f64",),
        "slct": (f"{_BITS}|{_INTEGERS}|f32|f64 s32", f"{{ftz}} {_BITS}|{_INTEGERS}|f32|f64 f32"),
        "setp": (
            f"eq|ne {_BOOL} {_BITS}",
            f"{_COMPARED} {_BOOL} {_SIGNED}",
            f"{_UNSIGNED_COMPARED} {_BOOL} {_UNSIGNED}",
            f"{_FLOATS_COMPARED} {_BOOL} {{ftz}} f32|f16|f16x2",
            f"{_FLOATS_COMPARED} {_BOOL} f64|bf16|bf16x2",
        ),
        "set": (
            f"eq|ne {_BOOL} u32|s32|f32|f16|bf16 {_BITS}",
            f"{_COMPARED} {_BOOL} u32|s32|f32|f16|bf16 {_SIGNED}",
            f"{_UNSIGNED_COMPARED} {_BOOL} u32|s32|f32|f16|bf16 {_UNSIGNED}",
            f"{_FLOATS_COMPARED} {_BOOL} {{ftz}} u32|s32|f32|f16 f32",
            f"{_FLOATS_COMPARED} {_BOOL} u32|s32|f32|f16|bf16 f64",
            f"{_FLOATS_COMPARED} {_BOOL} {{ftz}} u16|s16|u32|s32|f16 f16",
            f"{_FLOATS_COMPARED} {_BOOL} u16|s16|u32|s32|bf16 bf16",
            f"{_FLOATS_COMPARED} {_BOOL} bf16 f16|f32",
            f"{_FLOATS_COMPARED} {_BOOL} {{ftz}} u32|s32|f16x2 f16x2",
            f"{_FLOATS_COMPARED} {_BOOL} u32|s32|bf16x2 bf16x2",
        ),
        "cvt": (
            f"{_ALL_INTEGERS} {_ALL_INTEGERS}",
            *_clamped(),
            f"{_IRND} {{ftz}} {{sat}} {_ALL_INTEGERS} f32",
            f"{_IRND} {{sat}} {_ALL_INTEGERS} f16|f64",
            f"{_IRND} {_INTEGERS} bf16",
            f"{_RND} {{ftz}} {{sat}} f32 {_ALL_INTEGERS}|f64",
            f"{_RND} {{sat}} f16|f64 {_ALL_INTEGERS}",
            f"{_RND} bf16 {_INTEGERS}|f64",
            f"{_RND} {{sat}} f16 f64",
            f"{_RND} {{ftz}} {{sat}} f16 f32",
            f"{_RND} {{ftz}} bf16 f32",
            "rn|rz {relu} {satfinite} f16|bf16|f16x2|bf16x2|tf32 f32",
            "rna {satfinite} tf32 f32",
            f"{{{_IRND}}} {{ftz}} {{sat}} f32 f32",
            f"{{{_IRND}}} {{sat}} f16 f16",
            f"{{{_IRND}}} {{sat}} f64 f64",
            f"{{{_IRND}}} bf16 bf16",
            "{ftz} {sat} f64 f32",
            "{ftz} {sat} f32 f16",
            "{sat} f64 f16",
            f"{{{_RND}}} {{ftz}} f32 bf16",
            f"{{{_RND}}} f64|f16 bf16",
            f"{{{_RND}}} bf16 f16",
            "rn satfinite {relu} e4m3x2|e5m2x2 f32|f16x2",
            "rn {relu} f16x2 e4m3x2|e5m2x2",
        ),
        "mov": (f"pred|b128|{_MOVED}", f"v2|v4|v8 {_MOVED}"),
        "selp": (_MOVED,),
        "cvta": (f"{{to}} {_SPACES} u32|u64",),
        "isspacep": (_SPACES,),
        "mapa": ("{shared::cluster} u32|u64",),
        "getctarank": ("{shared::cluster} u32|u64",),
        "shfl.sync": ("up|down|bfly|idx b32",),
        "vote.sync": ("all|any|uni pred", "ballot b32"),
        "redux.sync": ("add|min|max u32|s32", "and|or|xor b32", "min|max {abs} {NaN} f32"),
        **dict.fromkeys(("barrier.red", "barrier.cta.red"), ("popc {aligned} u32", "and|or {aligned} pred")),
        **dict.fromkeys(("bar.red", "bar.cta.red"), ("popc u32", "and|or pred")),
        **dict.fromkeys(("bar.sync", "bar.cta.sync", "bar.arrive", "bar.cta.arrive"), ("",)),
        **dict.fromkeys(("ld.acquire", "ld.relaxed"), (f"{_SCOPE} {_SPACE} {_EVICTED} {_FETCHED} {_LOADED}",)),
        **dict.fromkeys(("st.release", "st.relaxed"), (f"{_SCOPE} {_SPACE} {_EVICTED} {_LOADED}",)),
        "ld.volatile": (f"{_SPACE} {_FETCHED} {_LOADED}",),
        "st.volatile": (f"{_SPACE} {_LOADED}",),
        **dict.fromkeys(("ld.mmio.relaxed", "st.mmio.relaxed"), (f"sys {{global}} {_LOADED}",)),
        "cvt.pack": ("sat u16|s16 s32", "sat u8|s8|u4|s4|u2|s2 s32 b32"),
    }
)
"""By row: lines of words in the order of the ISA. `{…}` may be left out, `|` separates alternatives, and types come
last. A row that is not here takes one of its types and no other modifier."""


def has_form(name: str, types: Sequence[str], words: frozenset[str]) -> bool:
    """Whether an instruction of the row `name` may have these types, in order, with these other modifiers."""
    lines = _lines(name)
    if lines is None:
        return len(types) == 1 and not words
    return any(_fits(line, (*types,), words) for line in lines)


def forms_of(name: str, types: Sequence[str] = ()) -> list[str]:
    """The forms of a row with these types last, as the PTX ISA writes them; all forms if there are none."""

    def slot(each: str) -> str:
        found = "." + each.strip("{}").replace("|", "|.")
        return f"{{{found}}}" if each[0] == "{" else f"({found})" if "|" in each else found

    return [name + "".join(map(slot, line)) for line in _lines(name) or () if _are_types(line, (*types,))]


@cache
def _lines(name: str) -> tuple[tuple[str, ...], ...] | None:
    return tuple(tuple(line.split()) for line in FORMS[name]) if name in FORMS else None


def _are_types(line: tuple[str, ...], types: tuple[str, ...]) -> bool:
    """Whether the last words of a line may be these types."""
    last = line[len(line) - len(types) :]
    return len(last) == len(types) and all(type in slot.split("|") for type, slot in zip(types, last, strict=True))


@cache
def _fits(line: tuple[str, ...], types: tuple[str, ...], words: frozenset[str]) -> bool:
    if not _are_types(line, types):
        return False
    slots = line[: len(line) - len(types)]
    used = [words.intersection(slot.strip("{}").split("|")) for slot in slots]
    required = all(found or slot[0] == "{" for slot, found in zip(slots, used, strict=True))
    return required and all(len(found) <= 1 for found in used) and sum(map(len, used)) == len(words)
