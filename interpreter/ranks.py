"""Several GPUs: a kernel on each rank, and the copy engines that fill the shards of A, in one interpretation.

Each rank has a device with memory of its own. The agents of all devices take turns, drawn from a seed. The copy engine
of a rank copies its own shard to each other rank, in parts, and then writes the flag of the shard there, in the order
of its stream (`STREAM_ORDER`). A wait for a flag that nobody writes any more is a deadlock. What a copy engine writes
is ordered before the accesses of a kernel only by an acquire of the flag at the scope .sys. There are no copy engines
if the kernels send their shards themselves (sent_shards.py).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import InterpreterError
from lowtide.interpreter.api import Loaded, Run
from lowtide.interpreter.machine.options import MAX_STEPS, Observers, Options
from lowtide.interpreter.numbers import domains
from lowtide.interpreter.peers import sum_on_owners
from lowtide.interpreter.sent_shards import PEERS, sent_shards
from lowtide.interpreter.shards import CopyEngine
from lowtide.interpreter.turns import Rank, Sending, take_turns
from lowtide.interpreter.windows import Calls

STREAM_ORDER = (
    "stream order: a copy of a copy engine or the stores of a kernel, and the write of a flag behind it on the same "
    "stream, are writes and a release at the scope .sys for a kernel on another GPU"
)
"""What this model assumes of copy engines, because the PTX ISA does not say it. benchmarks/litmus/run_peers.py tests
it."""

_CALLS = Calls()


def interpret_ranks(
    module: Any,
    ranks: Sequence[Mapping[str, Any]],
    *,
    sms: int = 2,
    seed: int = 0,
    domain: str = "float",
    max_steps: int = MAX_STEPS,
    sendings: Mapping[tuple[int, int], Sending] = MappingProxyType({}),
    calls: Calls = _CALLS,
) -> list[Any]:
    """Run a product whose shards arrive (`GemmSpec(arrivals=True)`) on all ranks. Returns the results of each rank.

    `ranks`: the inputs of each rank, as for `interpret`. They have the rank's own shard of A, `a[rank]`, and its flag.
    The copy engines of the other ranks overwrite the other shards and flags: their contents in `a` and `arrived` are
    those of an earlier call. If the kernels send the shards (`grid.sender`), their stores overwrite them, and the
    contents of `peers` do not matter. `seed` determines the order of agents, devices and copies. `sendings`: faults of
    copies, or of what kernels send, by (source, target). The other arguments are those of `interpret`.

    If D is a list (`lists="d"`), all of A is there, and product q has the rows that rank q owns. Each rank sends it to
    rank q's memory and sets a flag there. The owner waits for all flags, and adds the parts of its rows (peers.py). The
    result of a rank is this sum, (M, N) in D's type; if owners send their sums to all ranks (`Calls.sums`), it is
    (ranks, M, N). `calls`: the number of calls and slots, and how parts and sums are sent. `sendings`: faults of parts,
    by (source, owner).

    Raises InterpreterError as `interpret` does, with the rank. Also raises it if all ranks that have not ended wait,
    with what each waits for.
    """
    loaded, numbers = module if isinstance(module, Loaded) else Loaded(module), domains.domain(domain)
    options = Options(sms, seed, max_steps, timeless=True)
    devices = [Run(loaded, inputs, numbers, options, Observers()) for inputs in ranks]
    _check(devices)
    if devices[0].stores_to_list:
        begin = [partial(Run, loaded, inputs, numbers, options, Observers()) for inputs in ranks]
        with np.errstate(all="ignore"):
            return sum_on_owners(begin, sendings, calls, Random(seed))
    with np.errstate(all="ignore"):
        for device in devices:
            device.place()
        schedule = Schedule.carried_by(loaded.module)
        is_sent = schedule is not None and schedule.sends
        writers: list[Any] = [*(sent_shards if is_sent else _copy_engines)(devices, sendings)]
        take_turns([Rank(*each) for each in enumerate(devices)], writers, Random(seed))
    return [device.results(("a", "arrived", PEERS)) for device in devices]


def _copy_engines(devices: Sequence[Run], sendings: Mapping[tuple[int, int], Sending]) -> list[CopyEngine]:
    ranks = range(len(devices))
    pairs = [(source, target) for source in ranks for target in ranks if source != target]
    return [CopyEngine(*pair, devices, sendings.get(pair, Sending())) for pair in pairs]


def _check(devices: Sequence[Run]) -> None:
    """Raises InterpreterError for a product without arrivals, or if the inputs do not fit the ranks and their order."""
    for number, device in enumerate(devices):
        given = {each.name: each for each in device.arguments}
        if not {"arrived", "turn"} <= {*given}:
            raise InterpreterError("ranks run products whose shards arrive: GemmSpec(arrivals=True) [ranks-arrivals]")
        shards, rank = np.shape(given["a"].value)[0], int(np.asarray(given["turn"].value)[0])
        rank = number if device.stores_to_list else rank  # there, it says where a rank begins
        if shards != len(devices) or rank != number:
            raise InterpreterError(
                f"inputs {number} of {len(devices)} ranks: a has {shards} shards, and turn says rank {rank}; give the "
                f"inputs of ranks 0 to {len(devices) - 1}, in order, with a shard for each [ranks-shards]"
            )
