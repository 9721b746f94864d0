"""Runs parts of a test in several processes that form a process group of gloo, and collects what each said."""

import os
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

Part = Callable[[], None]


def run_parts(parts: Sequence[Part], size: int, folder: Path, limit: int = 40) -> None:
    """Starts the processes once, and ends them after `limit` seconds. Each writes to a file for each part: nothing, or
    the traceback."""
    context = torch.multiprocessing.start_processes(
        _run, (parts, size, str(folder)), nprocs=size, join=False, start_method="fork"
    )
    for _ in range(limit):
        try:
            if context.join(timeout=1):
                return
        except torch.multiprocessing.ProcessExitedException:  # the files say in which part, and why
            return
    for process in context.processes:
        process.kill()


def assert_passed(part: str, size: int, folder: Path) -> None:
    for rank in range(size):
        said = folder / f"{part}.{rank}"
        assert said.exists(), f"rank {rank} did not end"
        assert not said.read_text(), f"rank {rank}: {said.read_text()}"


def _run(rank: int, parts: Sequence[Part], size: int, folder: str) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=10))
    for part in parts:
        try:
            part()
            said = ""
        except Exception:
            said = traceback.format_exc()
        Path(f"{folder}/{part.__name__}.{rank}").write_text(said)
        dist.barrier()
    dist.destroy_process_group()
