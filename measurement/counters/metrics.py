"""The metrics that ncu counts, and the share of each resource of the GPU that follows from them.

The names are those of ncu (Nsight Compute, "Metrics Reference"). A share is of the time of the launch, and of the peak
rate of the unit. The resources are those of `inspection/timeline/shares.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_OF_TIME = ".avg.pct_of_peak_sustained_elapsed"
_OF_ACTIVE = ".avg.pct_of_peak_sustained_active"

TIME, CYCLES = "gpu__time_duration.sum", "sm__cycles_elapsed.max"
_ACTIVE = f"sm__cycles_active{_OF_TIME}"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts"
_SHARED, _OF_WGMMA = f"{_WAVEFRONTS}_mem_shared.sum", f"{_WAVEFRONTS}_mem_shared_op_gmma.sum"
_CONFLICTS = (
    "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum",
)
_L2_BYTES, _L2_HITS = "lts__t_bytes.sum", "lts__t_sector_hit_rate.pct"
_READ, _WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
_ISSUED, _WARPS = f"smsp__issue_active{_OF_ACTIVE}", f"sm__warps_active{_OF_ACTIVE}"
_REGISTERS, _WAVES = "launch__registers_per_thread", "launch__waves_per_multiprocessor"

Values = Mapping[str, float]
"""Counts by ncu's names: bytes, nanoseconds, per cent, or numbers of events."""


@dataclass(frozen=True)
class Resource:
    """A resource. `shares`: metrics. The first one that ncu has gives the share of time in which the resource works, in
    per cent; with `idle`, the share in which it does not work. `describe` gives a text for each of the metrics `others`
    that ncu has."""

    name: str
    shares: tuple[str, ...]
    others: tuple[str, ...]
    describe: Callable[[Values], list[str]]
    idle: bool = False

    def share(self, values: Values) -> float | None:
        """The share of time, from 0 to 1; None if ncu has no such metric."""
        found = next((values[name] / 100 for name in self.shares if name in values), None)
        return found if found is None or not self.idle else max(0.0, 1 - found)


def _rate(values: Values, *names: str) -> list[str]:
    """The sum of these bytes in MB, with its rate; nothing if ncu lacks one of them."""
    if not all(name in values for name in names):
        return []
    moved = sum(values[name] for name in names)
    rate = f", {moved / values[TIME]:.0f} GB/s" if values.get(TIME) else ""
    return [f"{moved / 1e6:.1f} MB{rate}"]


def _each(values: Values, *texts: tuple[str, str]) -> list[str]:
    """A text for each name that ncu has, formatted with the value."""
    return [text.format(values[name]) for name, text in texts if name in values]


def _of_shared(values: Values) -> list[str]:
    conflicts = [values[name] for name in _CONFLICTS if name in values]
    found = _each(values, (_SHARED, "{:.0f} wavefronts"), (_OF_WGMMA, "{:.0f} of them for wgmma"))
    return found + ([f"{sum(conflicts):.0f} because of conflicts of ldmatrix and wgmma"] if conflicts else [])


def _of_memory(values: Values) -> list[str]:
    return _rate(values, _READ, _WRITTEN) + [
        f"{values[name] / 1e6:.1f} MB {word}"
        for name, word in ((_READ, "read"), (_WRITTEN, "written"))
        if name in values
    ]


RESOURCES: Sequence[Resource] = (
    Resource(
        "tensor cores",
        (
            f"sm__pipe_tensor_cycles_active{_OF_TIME}",
            f"sm__pipe_tensor_op_hmma_cycles_active{_OF_TIME}",
            f"sm__inst_executed_pipe_tensor{_OF_TIME}",
        ),
        ("sm__inst_executed_pipe_tensor_op_gmma.sum", "sm__inst_executed_pipe_tensor_op_hmma.sum"),
        lambda values: _each(
            values,
            ("sm__inst_executed_pipe_tensor_op_gmma.sum", "{:.0f} wgmma of warps"),
            ("sm__inst_executed_pipe_tensor_op_hmma.sum", "{:.0f} mma.sync of warps"),
        ),
    ),
    Resource(
        "shared memory",
        (f"{_WAVEFRONTS}{_OF_TIME}", f"{_WAVEFRONTS}_mem_shared{_OF_TIME}"),
        (_SHARED, _OF_WGMMA, *_CONFLICTS),
        _of_shared,
    ),
    Resource(
        "L2",
        (f"lts__t_sectors{_OF_TIME}", f"lts__throughput{_OF_TIME}"),
        (_L2_BYTES, _L2_HITS),
        lambda values: _rate(values, _L2_BYTES) + _each(values, (_L2_HITS, "{:.0f}% of sectors hit")),
    ),
    Resource(
        "memory",
        (f"dram__throughput{_OF_TIME}", f"gpu__dram_throughput{_OF_TIME}"),
        (_READ, _WRITTEN),
        _of_memory,
    ),
    Resource(
        "waits",
        (),
        (_ISSUED, _WARPS),
        lambda values: _each(
            values, (_ISSUED, "{:.0f}% of issue slots used"), (_WARPS, "{:.0f}% of the places for warps taken")
        ),
    ),
    Resource(
        "launch",
        (),
        (_REGISTERS, _WAVES),
        lambda values: _each(values, (_REGISTERS, "{:.0f} registers a thread"), (_WAVES, "{:.2f} waves of CTAs")),
    ),
    Resource("idle SMs", (_ACTIVE,), (), lambda values: [], idle=True),
)

#: If each resource works for a smaller share of the time, waits limit the kernel. The rule is that of ncu's "Speed of
#: Light" section.
_BUSY = 0.6


def asked() -> list[str]:
    """The names to ask ncu for."""
    return [*dict.fromkeys([TIME, CYCLES, *(name for row in RESOURCES for name in (*row.shares, *row.others))])]


def rows(values: Values, predicted: Mapping[str, float], fields: Mapping[str, str]) -> list[tuple[str, ...]]:
    """For each resource of `fields`: its name, its predicted share, its counted share, ncu's other counts of it, and
    the fields of the schedule that change it."""
    own = {row.name: row for row in RESOURCES}
    found: list[tuple[str, ...]] = []
    for name, of_schedule in fields.items():
        row = own.get(name)
        share = None if row is None else row.share(values)
        words = "" if row is None else ", ".join(row.describe(values))
        found.append((name, _percent(predicted.get(name)), _percent(share), words, of_schedule))
    return found


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def summary(values: Values, fields: Mapping[str, str]) -> str:
    """The time of the launch, its clock, and the resource that binds with its fields."""
    text = "one launch"
    if values.get(TIME):
        text += f" of {values[TIME] / 1000:.1f} µs"
        text += f" at {values[CYCLES] / values[TIME] * 1000:.0f} MHz" if CYCLES in values else ""
    binds = binding(values)
    if binds is None:
        return f"{text}; no shares of resources were counted"
    return f"{text}; bound by {binds}: {fields[binds]}"


def binding(values: Values) -> str | None:
    """The resource with the largest share, or "waits" if none works for 60 % of the time. None without shares."""
    shares = {row.name: share for row in RESOURCES if (share := row.share(values)) is not None}
    if not shares:
        return None
    largest = max(shares, key=shares.__getitem__)
    return largest if shares[largest] >= _BUSY else "waits"
