"""Messages of the interpreter in the words of PTX, for kernels of other compilers.

The interpreter runs all levels of Lowtide's IR. So its messages name the level, and call what runs there an agent. A
launch of PTX has one level, and its agents are warps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORDS = (
    (", level ptx", ""),
    ("deadlock: no agent can continue", "no warp can continue"),
    ("order of agents", "order of warps"),
    ("the limit of their number was", "the limit of their number (--orders) was"),
    ("the limit of the time was", "the limit of the time (--seconds) was"),
    ("orders of agents", "orders of warps"),
    ("before agent ", "before "),
    ("not all of them in a matrix", "not all of them in an array"),
    ("matrices and workspaces of ", "arrays of "),
    ("take a smaller problem, less padding, or fewer SMs", "take a smaller problem"),
    ("nvvm.fence.mbarrier.init", "fence.mbarrier_init"),
    ("sm.tma_store_wait read 0", "cp.async.bulk.wait_group.read 0"),
    ("sm.ptx_wgmma_wait", "wgmma.wait_group"),
    ("let its CTA arrive at a semaphore after that, and this one wait for it before", "let it release a flag after "
     "that (st.release, red.release, or a fence before the store), and this one acquire the flag before"),
    ("for a semaphore, which is ", "for a word of memory, which is "),
    ("ops and has not ended: a loop may have no end; give max_steps more if it has", "instructions and has not ended: "
     "a loop may have no end; if it has one, raise max_steps (--max-steps)"),
)  # fmt: skip
_LANES = re.compile(r"\blanes \[(\d+(?:, \d+)*)\]")
_STANDING = re.compile(r"  CTA (\d+) warp (\d+) (has not begun|is at|waits at)(.*)")
_PLURAL = {"has not begun": "have not begun", "is at": "are at", "waits at": "wait at"}


def in_words_of_ptx(message: str) -> str:
    """A message in the words of PTX. The lines on warps that stand at one place become one line."""
    for ours, theirs in _WORDS:
        message = message.replace(ours, theirs)
    message = _LANES.sub(lambda found: _numbered("lane", [*map(int, found[1].split(", "))]), message)
    message = re.sub(r"\b[Tt]he (CTA \d)", r"\1", message)
    lines = message.split("\n")
    standing = [found for line in lines if (found := _STANDING.fullmatch(line)) is not None]
    if not standing:
        return message
    first = lines.index(standing[0][0])
    return "\n".join([*lines[:first], *_joined(standing), *lines[first + len(standing) :]])


def _joined(standing: Sequence[re.Match[str]]) -> list[str]:
    """A line for all warps that stand at one place for one reason."""
    warps: dict[tuple[str, str, str], list[int]] = {}
    for each in standing:
        warps.setdefault((each[1], each[3], each[4]), []).append(int(each[2]))
    ctas: dict[tuple[tuple[int, ...], str, str], list[int]] = {}
    for (cta, state, rest), numbers in warps.items():
        ctas.setdefault((tuple(numbers), state, rest), []).append(int(cta))
    return [
        f"  {_numbered('CTA', several)} {_numbered('warp', numbers)} "
        f"{state if len(several) == len(numbers) == 1 else _PLURAL[state]}{rest}"
        for (numbers, state, rest), several in ctas.items()
    ]


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    """`warp 3`, `warps 0-3, 6`."""
    found = sorted(numbers)
    parts, start = [], found[0]
    for number, after in zip(found, [*found[1:], None], strict=True):
        if after != number + 1:
            parts.append(str(start) if start == number else f"{start}-{number}")
            start = after if after is not None else start
    return f"{noun}{'s' if len(found) > 1 else ''} {', '.join(parts)}"
