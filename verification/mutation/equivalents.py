"""Arguments that a mutant is equivalent to its kernel; each checks its premises on the text of the level."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from lowtide.dialects.tile import SchedulerKind
from lowtide.verification.mutation.operators.operator import either
from lowtide.verification.mutation.sites import Mutant

_SHARED = re.compile(
    r"sm\.(copy|cp_async |ldmatrix|load_shared|store_shared|tma_|wgmma|mbarrier_|ring_slot|ring_reuse)"
    r"|tile\.(mma|semaphore|store_partial|add_partials|sum_shares)|sm\.ptx_semaphore"
    r"|llvm\.(load|store) .*!llvm\.ptr<3>|nvvm\.(ldmatrix|stmatrix|mbarrier|wgmma|cp\.async\.(shared|bulk))"
    r"|llvm\.inline_asm "
    r"|\s((ld|st)\.shared|ldmatrix|stmatrix|mbarrier|wgmma|cp\.async\.(c[ag]|bulk)|red|atom)\."
)
_STORED = re.compile(
    r"tile\.(store|semaphore)|sm\.(store_global|tma_store |ptx_)|llvm\.store .*!llvm\.ptr<1>|llvm\.inline_asm "
    r"|\s(st\.global|cp\.async\.bulk\.tensor|red|atom)\b"
)
_GLOBAL = re.compile(rf"{_STORED.pattern}|sm\.load_global|tile\.view|llvm\.load .*!llvm\.ptr<1>|\sld\.global")
_START = re.compile(r" *(tile\.kernel|gpu\.module|\.visible \.entry) ")
_LOOP = re.compile(rf"scf\.(for|while) |tile\.work_tiles .*({either(set(SchedulerKind) - {SchedulerKind.one_shot})})")
_LABEL = re.compile(r"\$\w+|\^bb\d+")
_BRANCH = re.compile(r"\s*((@!?%p\d+\s+)?bra\b|llvm\.(cond_)?br\b)")
# A wgmma, as an op or as assembly with its first sum.
_WGMMA = re.compile(
    r"(?P<result>%\w+) = (nvvm\.wgmma\.mma_async \S+, \S+, (?P<sums>%\w+), (?P<shape><[^>]*>)"
    r"|llvm\.inline_asm .*wgmma\.mma_async\.sync\.aligned\.(?P<atom>\S+) .*\" (?P<first>%\w+), )"
)
_BARRIER = re.compile(r"\s*(sm\.barrier$|nvvm\.barrier0|bar(rier)?\.sync(\.aligned)?\s+0;)")
_CONTROL = re.compile(r"\{\s*$|^\s*\}|^\s*(\^bb\d+|\$\w+)|\s*(llvm\.(cond_)?br|(@!?%p\d+\s+)?bra|ret)\b")
_WAIT = re.compile(r"cp_async_wait|cp\.async\.wait[._]group")
_COMMIT = re.compile(r"cp_async_commit|cp\.async\.commit")


@dataclass(frozen=True)
class Argument:
    """Why a mutant computes the same as its kernel; `check` names the premises that were checked."""

    check: str
    why: str


def argument_for(mutant: Mutant, original: str) -> Argument | None:
    """The argument whose premises hold for a mutant; None if there is none."""
    lines, others = original.splitlines(), mutant.text.splitlines()
    at = _common(lines, others)
    if mutant.operator.endswith("earlier"):  # the original position of the line, not its new one
        at = len(lines) - 1 - _common(lines[::-1], others[::-1])
    for operators, holds, argument in _RULES:
        if re.fullmatch(operators, mutant.operator) and holds(lines, at):
            return argument
    return None


def _common(lines: list[str], others: list[str]) -> int:
    """The number of equal lines at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(lines, others, strict=False)))


def _orders_nothing(lines: list[str], at: int) -> bool:
    """After the line nothing accesses shared memory. If anything before it stores to global memory, nothing after it
    accesses global memory. The line is not in a loop."""
    start = next(number for number, line in enumerate(lines) if _START.match(line))
    through_shared = re.compile(r"tile\.store ") if "path = direct" not in "\n".join(lines[:start]) else None
    behind = lines[at:]
    if any(_SHARED.search(line) or (through_shared and through_shared.search(line)) for line in behind):
        return False
    if any(_STORED.search(line) for line in lines[start:at]) and any(_GLOBAL.search(line) for line in behind):
        return False
    labels = {found[0] for line in lines[:at] if (found := _LABEL.match(line.lstrip()))}
    if any(label in labels for line in behind if _BRANCH.match(line) for label in _LABEL.findall(line)):
        return False
    return not any(_LOOP.search(line) for line in _around(lines, at))


def _barrier_follows(lines: list[str], at: int) -> bool:
    """Between a wait for cp.async and the second barrier of the CTA after it, in the same block, nothing accesses
    shared memory or commits copies: if the wait moves behind the first barrier, it still precedes the second. The line
    is the wait, or the first barrier."""
    if _BARRIER.match(lines[at]):
        between = list(takewhile(lambda line: not _WAIT.search(line), reversed(lines[:at])))
        if any(_CONTROL.search(line) or _SHARED.search(line) or _COMMIT.search(line) for line in between):
            return False
        at -= len(between) + 1
    barriers = 0
    for line in lines[at + 1 :]:
        barriers += bool(_BARRIER.match(line))
        if barriers == 2:
            return True
        if _CONTROL.search(line) or _SHARED.search(line) or _COMMIT.search(line):
            return False
    return False


def _in_flight(lines: list[str], at: int) -> bool:
    """Each wgmma up to the next commit adds to the sums of a wgmma of the same shape, or to such sums carried unchanged
    by a loop."""
    batch = takewhile(lambda line: "wgmma" not in line or "commit" not in line, lines[at:])
    found = [one for line in batch if (one := _WGMMA.search(line))]
    made = {one["result"]: _shape(one) for line in lines if (one := _WGMMA.search(line))}
    sources = [(_shape(one), source) for one in found for source in _sources(lines, at, one, made) or [""]]
    return bool(sources) and all(made.get(source) == shape for shape, source in sources)


def _sources(lines: list[str], at: int, wgmma: re.Match[str], made: Mapping[str, str]) -> list[str]:
    """The values that are the sums of a wgmma; values in `made` are not traced further."""
    if wgmma["first"] is None:
        sums = wgmma["sums"]
        return [sums] if sums in made else _carried_by_for(lines, at, sums)
    whole = re.compile(rf" *{wgmma['first']} = llvm\.extractvalue (%\w+)\[0\]")
    sums = next((found[1] for line in lines if (found := whole.match(line))), "")
    return [sums] if sums in made else _carried_by_branches(lines, sums)


def _shape(wgmma: re.Match[str]) -> str:
    return str(wgmma["shape"] or wgmma["atom"])


def _carried_by_for(lines: list[str], at: int, name: str) -> list[str]:
    """The values that the scf.for around a line carries under a name: the initial one, and that of the previous
    step."""
    loop = next((line for line in _around(lines, at) if "scf.for" in line), "")
    carried = re.findall(r"(%\w+) = (%\w+)(?=[,)])", loop.partition("iter_args")[2])
    names = [own for own, _ in carried]
    if name not in names:
        return []
    position = names.index(name)
    end = next((line for line in lines[at:] if "scf.yield" in line), "")
    yielded = re.findall(r"%[\w#]+", end.partition(" : ")[0])
    return [carried[position][1], yielded[position] if position < len(yielded) else ""]


def _carried_by_branches(lines: list[str], name: str) -> list[str]:
    """The values that branches pass for one of a block's arguments."""
    for line in lines:
        block = re.match(r" *(\^bb\d+)\((.*)\):", line)
        names = re.findall(r"(%\w+):", block[2]) if block else []
        if block and name in names:
            jumps = re.compile(rf"{re.escape(block[1])}\(([^:]*) : ")
            given = [re.findall(r"%\w+", jump) for other in lines for jump in jumps.findall(other)]
            return [own[names.index(name)] for own in given]
    return []


def _sums_of_zero(lines: list[str], at: int) -> bool:
    """The sums of a wgmma, as an op or in assembly, are one constant zero. A fence comes between them and the wgmma, or
    a wgmma for other sums after the fence."""
    found = re.search(r"\" (?P<sums>%\w+)(?:, (?P=sums))+(, %\w+){7} : ", lines[at])
    wgmma = _WGMMA.search(lines[at])
    if wgmma is None or (found is None and wgmma["sums"] is None):
        return False
    sums = wgmma["sums"] if found is None else found["sums"]
    zero = re.compile(rf" *{sums} = llvm\.mlir\.(zero|constant\(0\.0+e\+00 : f32\)) : (f32|!registers|!llvm\.struct<)")
    before = next((line for line in reversed(lines[:at]) if "wgmma" in line and "mma_async" not in line), "")
    made = next((line for line in reversed(lines[:at]) if re.match(rf" *{sums} = ", line)), "")
    return "wgmma.fence" in before and zero.match(made) is not None


def _waits_again(lines: list[str], at: int) -> bool:
    """The next instruction is a wait for all groups of the same kind."""
    found = re.search(r"(\S*wait[._]group\S*) +\d+", lines[at])
    behind = next((line for line in lines[at + 1 :] if line.strip() and not line.lstrip().startswith("//")), "")
    return found is not None and re.search(rf"{re.escape(found[1])} +0\b", behind) is not None


def _no_swizzle_by_address(lines: list[str], at: int) -> bool:
    """No instruction uses address bits in shared memory beyond those of 16 bytes."""
    start = next(number for number, line in enumerate(lines) if _START.match(line))
    return not any(re.search(r"wgmma|cp\.async\.bulk", line) for line in lines[start:])


def _of_a_multiple(lines: list[str], at: int) -> bool:
    """The line tests whether an extent, on the right, equals (extent / step) * step."""
    words = re.search(r"arith\.cmpi eq, (%\w+), (%\w+) : index", lines[at])
    product = _made_by(lines, words[1] if words else "", r"arith\.muli (%\w+), (%\w+) : index")
    quotient = _made_by(lines, product[1] if product else "", r"arith\.divsi (%\w+), (%\w+) : index")
    if words is None or product is None or quotient is None or quotient.groups() != (words[2], product[2]):
        return False
    positive = _made_by(lines, product[2], r"arith\.constant [1-9]\d* : index")
    return positive is not None and _made_by(lines, words[2], r"memref\.dim ") is not None


def _clears(lines: list[str], at: int) -> bool:
    """The line launches a kernel that only clears."""
    launched = re.match(r" *tile\.launch (@\w+) ", lines[at])
    opening = re.compile(rf" *tile\.kernel {launched[1]}\(" if launched else r"(?!)")
    start = next((number for number, line in enumerate(lines) if opening.match(line)), len(lines))
    body = list(takewhile(lambda line: line.strip() != "}", lines[start + 1 :]))
    return any(re.match(r" *tile\.prepare %\w+ : ", line) for line in body) and not any(
        _STORED.search(line) for line in body
    )


def _made_by(lines: list[str], name: str, op: str) -> re.Match[str] | None:
    """The line that defines a value, if it is an op of this form."""
    form = re.compile(rf" *{re.escape(name)} = {op}")
    return next((found for line in lines if (found := form.match(line))), None)


def _around(lines: list[str], at: int) -> Iterator[str]:
    """The lines that open the regions around a line, innermost first."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    for line in reversed(lines[:at]):
        own = len(line) - len(line.lstrip())
        if line.strip() and own < indent:
            indent = own
            yield line


# Operators, premises, and the argument that holds if the premises do. The first match counts.
_RULES: tuple[tuple[str, Callable[[list[str], int], bool], Argument], ...] = (
    (
        r"wait for cp\.async later|barrier earlier",
        _barrier_follows,
        Argument(
            "a barrier follows",
            "it still precedes a barrier of the CTA that precedes every access of shared memory",
        ),
    ),
    (
        r"assertion of less",
        _of_a_multiple,
        Argument(
            "of a multiple",
            "an extent rounded down to a multiple is never larger than it, so greater or equal means equal",
        ),
    ),
    (
        r"a warp more",
        _clears,
        Argument("one thread clears", "only the first thread of the launch clears, so further threads do not matter"),
    ),
    (
        r"scale-d inverted",
        _sums_of_zero,
        Argument("sums of zero", "the added sums are the constant zero"),
    ),
    (
        r"(barrier (dropped|later|earlier))|(wait for cp\.async later)",
        _orders_nothing,
        Argument(
            "nothing to order",
            "after it nothing accesses shared memory, nor global memory that was stored to before it; copies are "
            "waited for before the thread ends",
        ),
    ),
    (
        r"shared memory less aligned",
        _no_swizzle_by_address,
        Argument(
            "no swizzle by address",
            "only wgmma and TMA swizzle by the address itself; other accesses have at most 16 bytes, the least "
            "alignment of dynamic shared memory",
        ),
    ),
    (
        r"one group (of \w+ )?more in flight|wait for (wgmma|cp\.async|TMA stores) dropped",
        _waits_again,
        Argument("waited for again", "the next instruction waits for all groups of the same kind"),
    ),
    (
        r"fence of wgmma (dropped|later)",
        _in_flight,
        Argument(
            "sums in flight",
            "the next wgmma adds to the sums of one of the same shape, which nothing else accesses: these are ordered "
            'without a fence (PTX ISA, "wgmma.fence")',
        ),
    ),
)
