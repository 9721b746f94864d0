"""The agreement of all ranks before the first call of a signature: whether the call fits, and who computes it.

Each rank sends its arguments, the error that they raise, and the reason if it cannot take the kernels. Each rank reads
the answers of all ranks. So all ranks raise the same error, or choose the plain ops for the same reason. If only one
rank makes a call of a signature, it waits for the others until the time-out of the process group.
"""

import socket
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from lowtide.decompositions import DECOMPOSITIONS
from lowtide.errors import Error, LaunchError
from lowtide.torch.distributed import symmetric
from lowtide.torch.distributed.call import GATHER
from lowtide.torch.distributed.ranks import Ranks

_UNIT = 16  # bytes; rows that TMA loads and stores are multiples of it
_FEWEST_ROWS = 512  # of the whole product; with fewer, the plain ops took less time (docs/performance.md)
# MiB of the parts of a sum that a rank sends. With fewer, flags and the kernel of the sum took longer than NCCL.
_FEWEST_SENT = 8


class Signature(NamedTuple):
    """A call: the op, the shapes of this rank's A and B, the types of A, B and D, the rows of each rank if they were
    given, whether A has scales of rows, the precision of products of f32, and the other arguments."""

    op: str
    a: tuple[int, int]
    b: tuple[int, int]
    types: tuple[torch.dtype, torch.dtype, torch.dtype]
    rows: tuple[int, ...]
    scaled: bool
    precision: str | None
    rest: tuple[Any, ...]

    @property
    def shared(self) -> str:
        """The arguments that must be equal on all ranks, as text. If rows are gathered, N may differ between ranks, and
        the rows of A if those of all ranks are given. If products are summed, K may differ."""
        is_gather = self.op == GATHER
        free = {"N" if is_gather else "K", "rows" if not self.rows else "rows of a" if is_gather else ""}
        one = {"rows of a": self.a[0], "rows": self.rows, "K": self.a[1], "N": self.b[1]}
        one |= {"a": self.types[0], "out": self.types[2]}
        scales = ", scale_a" if self.scaled else ""
        return f"{self.op}, " + ", ".join(f"{name} {value}" for name, value in one.items() if name not in free) + scales


def report(ranks: Ranks) -> str:
    """A line for each signature of the calls so far: whether all ranks take the kernels, and if not, why."""
    lines = [
        f"{asked.shared}: " + (f"the plain ops, because {why}" if why else "the kernels")
        for asked, why in ranks.agreed.items()
        if isinstance(asked, Signature)
    ]
    return "\n".join(lines) or "no call was made"


def why_plain(ranks: Ranks, device: torch.device, asked: Signature, check: Callable[[], object]) -> str:
    """Why all ranks take the plain ops for such calls; "" if they take the kernels. `check` raises an Error if this
    rank's operands do not fit. Raises the same LaunchError on all ranks."""
    if (found := ranks.agreed.get(asked)) is not None:
        return found
    wrong = _wrong(check)
    reason = "" if wrong else _own_reason(ranks, device, asked)
    answers = ranks.gathered((wrong, asked.shared, reason))
    for number, (wrong, _, _) in enumerate(answers):
        if wrong:
            raise LaunchError(wrong if ranks.size == 1 else f"rank {number}: {wrong}")
    shared = [answer[1] for answer in answers]
    if len({*shared}) > 1:
        said = "; ".join(f"rank {number} has {each}" for number, each in enumerate(shared))
        raise LaunchError(f"ranks disagree: {said}; give all ranks the same [ranks-disagree]")
    reasons = [f"rank {number}: {answer[2]}" for number, answer in enumerate(answers) if answer[2]]
    ranks.agreed[asked] = found = reasons[0] if reasons else _why_no_memory(ranks, device)
    return found


def _wrong(check: Callable[[], object]) -> str:
    try:
        check()
    except Error as error:
        return str(error)
    return ""


def _own_reason(ranks: Ranks, device: torch.device, asked: Signature) -> str:
    """Why this rank cannot take the kernels, or should not."""
    of_a, _, of_d = asked.types
    (rows, k), n = asked.a, asked.b[1]
    gathers = asked.op == GATHER
    whole = rows if not gathers else sum(asked.rows) or rows * ranks.size
    if ranks.size == 1:
        return "the group has one rank"
    if not whole or not k or not n:
        return "a matrix has no elements"
    if gathers and not rows:  # nothing would wait for this rank, so it could be two calls behind
        return "this rank has no rows"
    if k * of_a.itemsize % _UNIT or n * of_d.itemsize % _UNIT:
        return f"rows of K = {k} or of N = {n} elements are not multiples of {_UNIT} bytes"
    if asked.precision in DECOMPOSITIONS:
        return f"no kernel of several ranks computes products of pieces ({asked.precision})"
    if whole < _FEWEST_ROWS:
        return f"{whole} rows are too few"
    sent = (whole * n - whole * n // ranks.size) * of_d.itemsize
    if not gathers and sent < _FEWEST_SENT << 20:
        return f"the parts of the sum that a rank sends have {sent:,} bytes, fewer than {_FEWEST_SENT} MiB"
    return symmetric.why_not(device, ranks.group)


def _why_no_memory(ranks: Ranks, device: torch.device) -> str:
    """Why the ranks cannot share memory; "" if they can. The ranks agree on it once for the group and device."""
    key = "memory", device
    if key not in ranks.agreed:
        hosts = ranks.gathered((socket.gethostname(), symmetric.name_of_gpu(device)))
        if len({host for host, _ in hosts}) > 1:
            why = f"the group is on several hosts: {', '.join(host for host, _ in hosts)}"
        elif len({*hosts}) < ranks.size:
            why = "ranks share a GPU"
        else:
            tries = ranks.gathered(symmetric.try_to_share(device, ranks.group))
            why = next((f"rank {number}: {each}" for number, each in enumerate(tries) if each), "")
        ranks.agreed[key] = why
    return ranks.agreed[key]
