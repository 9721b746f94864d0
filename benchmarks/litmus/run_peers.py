"""Litmus tests on two GPUs: what the model of ranks relies on (docs/verification.md, "Axioms").

    python benchmarks/litmus/run_peers.py [--epochs 100000] [--only TEXT] [--json FILE]

Needs two GPUs of capability 9.0 that can access each other's memory, and cuda-python. The first GPU sends to the memory
of the second one (peer_kernels.py). Each axiom is tested with the order that it needs: no word may be wrong. Most
axioms have other tests, which leave out a part of that order: wrong words show that such a test can find a violation.
Senders and readers pause at random.

Exit status: 1 if a test of an axiom found a wrong word, gave up a wait, or read nothing; otherwise 0.
"""

import argparse
import ctypes
import datetime
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from peer_kernels import THREADS, WORDS, reader, reads, waits, writer
from peer_pair import APART, LARGE, OF_KERNELS, SMALL, Kernel, Pair, Send, copies, done, driver, made, stores

_IN_GRAPH = 2000  # epochs
_PAUSED = 0.1  # the share of epochs before which a sender pauses


How = Callable[..., Send]


def streamed(pair: Pair, how: How, words: int, text: str, graphs: bool = False) -> None:
    """The first GPU sends all epochs in the order of a stream, while a kernel on the second one reads."""
    pair.two.enter()
    read = Kernel(text, *[ctypes.c_uint64] * 3, *[ctypes.c_uint] * 3)
    pair.one.enter()
    send, draw = how(pair, words), random.Random(0)
    pair.two.enter()
    read(pair.two.stream, words // WORDS, THREADS, pair.data, pair.flags, pair.seen, words - 1, 0, pair.epochs)
    pair.one.enter()
    for first in range(1, pair.epochs + 1, _IN_GRAPH):
        with pair.in_graph(graphs):
            for epoch in range(first, min(first + _IN_GRAPH, pair.epochs + 1)):
                if draw.random() < _PAUSED:
                    pair.pause(pair.one.stream, 1, 32, draw.randrange(5000))
                send(epoch)


def flagged_by_kernel(pair: Pair, written: str, text: str) -> None:
    """A kernel on the first GPU writes all epochs, with a flag for each CTA, while one on the second reads."""
    pair.two.enter()
    read = Kernel(text, *[ctypes.c_uint64] * 3, *[ctypes.c_uint] * 3)
    pair.one.enter()
    write, ctas = Kernel(written, *[ctypes.c_uint64] * 2, *[ctypes.c_uint] * 2), OF_KERNELS // WORDS
    pair.two.enter()
    read(pair.two.stream, ctas, THREADS, pair.data, pair.flags, pair.seen, OF_KERNELS - 1, APART, pair.epochs)
    pair.one.enter()
    write(pair.one.stream, ctas, THREADS, pair.data, pair.flags, APART, pair.epochs)


def in_turns(pair: Pair, text: str, how: How, wait: str = waits(), early: bool = False) -> None:
    """The first GPU sends an epoch when the second has read the one before. On the second, one kernel waits for the
    flag, the next kernel reads, and then a flag is sent back. `early`: the flag is sent back before the reads. `wait`:
    the text of the kernel that waits; "": none does."""
    words, draw = OF_KERNELS, random.Random(0)
    pair.two.enter()
    types = *[ctypes.c_uint64] * 2, ctypes.c_uint
    read, there = Kernel(text, *types), Kernel(wait, *types) if wait else None
    pair.one.enter()
    back, send = Kernel(waits(), *types), how(pair, words)
    for epoch in range(1, pair.epochs + 1):
        pair.one.enter()
        back(pair.one.stream, 1, 1, pair.back, pair.seen, epoch - 1)
        if draw.random() < _PAUSED:
            pair.pause(pair.one.stream, 1, 32, draw.randrange(5000))
        send(epoch)
        pair.two.enter()
        if there is not None:
            there(pair.two.stream, 1, 1, pair.flags, pair.seen, epoch)
        answer = partial(driver.cuMemcpyAsync, pair.back, pair.numbers_two + 4 * epoch, 4, pair.two.stream)
        if early:
            done((*answer(), None))
        read(pair.two.stream, words // WORDS, THREADS, pair.data, pair.seen, epoch)
        if not early:
            done((*answer(), None))


@dataclass(frozen=True)
class Case:
    """A test of an axiom. `without`: the part of the order that is left out; "": none."""

    axiom: str
    without: str
    run: Callable[[Pair], None]


def _streamed(axiom: str, words: int, how: How, weaker: How, without: str = "flag after the data") -> tuple[Case, Case]:
    """A test of an axiom about the order of a stream, and one whose sender does not keep that order."""
    test = partial(streamed, words=words, text=reader(shared=True))
    return Case(axiom, "", partial(test, how=how)), Case(axiom, without, partial(test, how=weaker))


_BULK, _EARLY = partial(stores, bulk=True), partial(copies, flag_first=True)
_COPIED = partial(streamed, how=copies, words=LARGE)
_STORED = partial(streamed, how=stores, words=OF_KERNELS)
_FLAGGED = partial(flagged_by_kernel, text=reader(shared=True))
_IN_TURNS = partial(in_turns, text=reads(), how=copies)
_COPIES, _FENCE, _STORES = "stream-order of copies", "fence-after-acquire", "release-to-peer"
_READ = "cp.async.bulk.wait_group.read"
CASES = (
    *_streamed(f"{_COPIES}, 8 KiB", SMALL, copies, _EARLY),
    *_streamed(f"{_COPIES}, 1 MiB", LARGE, copies, _EARLY),
    Case(f"{_COPIES}, 1 MiB", "acquire", partial(_COPIED, text=reader("ld.relaxed.sys", shared=True))),
    Case(f"{_COPIES}, 1 MiB", ".sys: acquire.gpu", partial(_COPIED, text=reader("ld.acquire.gpu", shared=True))),
    Case(f"{_COPIES}, each thread waits", "", partial(_COPIED, text=reader())),
    Case(f"{_COPIES}, in CUDA graphs", "", partial(_COPIED, text=reader(shared=True), graphs=True)),
    *_streamed(
        "stream-order of products and copies", OF_KERNELS, made, partial(made, ordered=False), "order of streams"
    ),
    *_streamed("stream-order of stores", OF_KERNELS, stores, partial(stores, flag_first=True)),
    *_streamed("stream-order of TMA stores", OF_KERNELS, _BULK, partial(_BULK, flag_first=True)),
    Case(f"{_FENCE}, copies", "", partial(_COPIED, text=reader(bulk=True))),
    Case(f"{_FENCE}, copies", "fence", partial(_COPIED, text=reader(bulk=True, fence=False))),
    Case(f"{_FENCE}, stores", "", partial(_STORED, text=reader(bulk=True))),
    Case(f"{_FENCE}, stores", "fence", partial(_STORED, text=reader(bulk=True, fence=False))),
    Case(f"{_STORES}, stores", "", partial(_FLAGGED, written=writer())),
    Case(f"{_STORES}, stores", "release", partial(_FLAGGED, written=writer("st.relaxed.sys"))),
    Case(f"{_STORES}, stores", ".sys: release.gpu", partial(_FLAGGED, written=writer("st.release.gpu"))),
    Case(f"{_STORES}, TMA stores", "", partial(_FLAGGED, written=writer(bulk=True))),
    Case(f"{_STORES}, TMA stores", "full wait_group", partial(_FLAGGED, written=writer(bulk=True, wait=_READ))),
    Case("waited-then-read", "", _IN_TURNS),
    Case("waited-then-read", "wait", partial(_IN_TURNS, wait="")),
    Case("waited-then-read", "acquire", partial(_IN_TURNS, wait=waits("ld.relaxed.sys"))),
    Case("waited-then-read, by TMA", "", partial(_IN_TURNS, text=reads(bulk=True), how=_BULK)),
    Case("read-then-flag", "", partial(_IN_TURNS, how=stores)),
    Case("read-then-flag", "flag after the reads", partial(_IN_TURNS, how=stores, early=True)),
)


def measured(case: Case, pair: Pair) -> tuple[list[Any], bool]:
    """A row of the results, and whether it is as expected: if nothing is left out of the order, words were read, none
    is wrong, and no wait was given up."""
    pair.clear()
    case.run(pair)
    older, waits_, seen, newer = pair.counts()
    row = [case.axiom, case.without, pair.epochs, seen * WORDS, older + newer]
    print(f"| {' | '.join(map(str, row))} | {waits_} |", flush=True)
    return row, bool(case.without) or (seen > 0 and not (older or newer or waits_))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=100_000, help="of each test")
    parser.add_argument("--only", default="", help="only tests whose name has this")
    parser.add_argument("--json", type=Path, help="where the results go")
    given = parser.parse_args()
    pair, good = Pair(given.epochs), True
    rows: list[list[Any]] = []
    print(f"{pair.name}\n")
    print("| axiom | without | epochs | words read | wrong words | waits given up |\n| --- " + "| --- " * 5 + "|")
    for case in (each for each in CASES if given.only in each.axiom):
        row, right = measured(case, pair)
        rows, good = [*rows, row], good and right
        if given.json:
            given.json.write_text(_text(pair, rows, given.epochs), encoding="utf-8")
    return 0 if good else 1


def _text(pair: Pair, rows: list[list[Any]], epochs: int) -> str:
    version = done(driver.cuDriverGetVersion())
    head = {
        "device": pair.name,
        "date": f"{datetime.date.today()}",
        "command": f"python benchmarks/litmus/run_peers.py --epochs {epochs}",
        "software": f"CUDA driver API {version // 1000}.{version % 1000 // 10}",
        "columns": ["axiom", "without", "epochs", "words read", "wrong words"],
    }
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
    start = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items())
    return f'{{\n{start},\n"rows": [\n{lines}\n]\n}}\n'


if __name__ == "__main__":
    sys.exit(main())
