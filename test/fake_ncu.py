"""A script in place of ncu. Its output is written by hand in the form that ncu documents for `--csv --page raw`: a
heading, a line of units, a line for each launch. Nothing in it was recorded from a GPU."""

from collections.abc import Mapping
from pathlib import Path

_OF_TIME = ".avg.pct_of_peak_sustained_elapsed"
#: A launch: ncu's name, unit and value.
LAUNCH: Mapping[str, tuple[str, str]] = {
    "gpu__time_duration.sum": ("ns", "91,200"),
    "sm__cycles_elapsed.max": ("cycle", "160,056"),
    f"sm__pipe_tensor_cycles_active{_OF_TIME}": ("%", "91.25"),
    "sm__inst_executed_pipe_tensor_op_gmma.sum": ("inst", "262,144"),
    f"l1tex__data_pipe_lsu_wavefronts{_OF_TIME}": ("%", "62.5"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": ("", "12,582,912"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum": ("", "0"),
    f"lts__t_sectors{_OF_TIME}": ("%", "40.1"),
    "lts__t_bytes.sum": ("byte", "912,000,000"),
    "lts__t_sector_hit_rate.pct": ("%", "88.6"),
    f"dram__throughput{_OF_TIME}": ("%", "n/a"),
    "dram__bytes_read.sum": ("byte", "67,000,000"),
    "dram__bytes_write.sum": ("byte", "33,000,000"),
    "launch__registers_per_thread": ("register/thread", "168"),
    f"sm__cycles_active{_OF_TIME}": ("%", "97"),
}


def table_of(launch: Mapping[str, tuple[str, str]] = LAUNCH) -> str:
    """What ncu writes for one launch."""
    rows = [["ID", "Kernel Name", *launch], ["", "", *(unit for unit, _ in launch.values())]]
    rows.append(["0", "lowtide_gemm", *(value for _, value in launch.values())])
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def fake_ncu(folder: Path, output: str | None = None, status: int = 0) -> Path:
    """A folder with an ncu, which lists the metrics of `LAUNCH`, writes its arguments to the file `asked`, and prints
    `output`."""
    names = "\n".join(name.partition(".")[0] for name in LAUNCH)
    texts = {"listed": names, "output": "==PROF== Connected to process 7\n" + table_of() if output is None else output}
    for name, text in texts.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    script = folder / "ncu"
    script.write_text(
        f"#!/bin/sh\nif [ $1 = --query-metrics ]; then cat '{folder}/listed'; exit 0; fi\n"
        f"echo \"$@\" >> '{folder}/asked'\ncat '{folder}/output'\nexit {status}\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    return folder
