"""Processes in place of GPUs that share memory: windows are files that all processes map, and torch, or the
interpreter, computes what the kernels do."""

import contextlib
import ctypes
import itertools
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import ml_dtypes
import torch
import torch.distributed as dist

import lowtide as lt
from lowtide.compiler.spec_fields import UNBATCHED
from lowtide.elements import element_type
from lowtide.torch.calls import read
from lowtide.torch.distributed import agreement, exchange, gathering, launching, scattering, sending, symmetric
from lowtide.torch.dtypes import name_of
from lowtide.torch.evaluation import evaluate

_numbers = itertools.count()


class Window(symmetric.Window):
    """A window whose memory on each rank is a file. torch's handle is replaced; offsets are those of the base class."""

    def __init__(self, device: torch.device, group: Any, slots: int, size: int) -> None:
        folder: list[Any] = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(folder)
        files = [Path(folder[0]) / str(rank) for rank in range(dist.get_world_size())]

        def empty(count: int, dtype: torch.dtype, device: Any) -> torch.Tensor:
            files[dist.get_rank()].write_bytes(bytes(count))
            dist.barrier()
            self.files = [torch.from_file(str(each), shared=True, size=count, dtype=dtype) for each in files]
            return self.files[dist.get_rank()]

        def get_buffer(rank: int, shape: Any, dtype: torch.dtype, offset: int) -> torch.Tensor:
            count = torch.Size(shape).numel()
            return self.files[rank].view(dtype)[offset : offset + count].view(shape)

        handle = SimpleNamespace(get_buffer=get_buffer, world_size=len(files))
        module = SimpleNamespace(empty=empty, rendezvous=lambda whole, group: handle)
        with mock.patch.object(symmetric, "_module", lambda: module):
            super().__init__(device, group, slots, size)


class Launches(launching.Launches):
    """Computes the kernel of a spec with torch."""

    def prepared(self, spec: Any, numerics: str, operands: Mapping[str, Any], scalars: Mapping[str, Any]) -> Any:
        return lambda stream: self.run(spec, numerics, operands, scalars)

    def run(self, spec: Any, numerics: str, operands: Mapping[str, Any], scalars: Mapping[str, Any]) -> None:
        if spec.peers:
            send(operands)
        b = operands["b"].mT if spec.layout == "tn" else operands["b"]
        if spec.lists == "d":
            for shard, place in enumerate(operands["d"].matrices):
                self._store(place, spec, operands, scalars, shard, b)
            return
        if spec.batch is UNBATCHED:
            operands["d"].copy_(self._product(spec, operands, scalars, ..., b))
            return
        rank, size = int(operands["turn"][0]), spec.batch
        for shard in (*range(rank, size), *range(rank)):
            if not arrives(shard, operands["arrived"], operands["turn"], operands["status"]):
                return
            self._store(operands["d"][shard], spec, operands, scalars, shard, b)

    def _store(self, place: Any, spec: Any, operands: Mapping[str, Any], scalars: Any, shard: int, b: Any) -> None:
        count = int(operands["counts"][shard]) if spec.counts else spec.m
        place[:count] = self._product(spec, operands, scalars, shard, b)[:count]

    def _product(self, spec: Any, operands: Mapping[str, Any], scalars: Any, shard: int, b: torch.Tensor) -> Any:
        sums = operands["a"][shard].float() @ b.float()
        if spec.epilogue is None:
            return sums
        asked = read(spec.epilogue.text)
        tensors = [(operands[each.name], each.kind.value) for each in asked.tensors()]
        own = [x if kind == "per_column" else x[shard] for x, kind in tensors]
        return evaluate(asked, sums, own, [*scalars.values()])


class Interpreted(Launches):
    """Compiles the kernel of a spec for sm_90a, and interprets it once all flags have arrived."""

    def run(self, spec: Any, numerics: str, operands: Mapping[str, Any], scalars: Mapping[str, Any]) -> None:
        if spec.peers:
            send(operands)
            operands = {**operands, "peers": torch.zeros_like(operands["peers"])}
        waits = spec.arrivals and spec.lists is None and tuple(operands[name] for name in ("arrived", "turn", "status"))
        if waits and not all(arrives(shard, *waits) for shard in range(spec.batch)):
            return
        kernel = lt.compile_gemm(spec, "sm_90a", numerics=numerics)
        given = {name: as_numpy(x) for name, x in operands.items() if name != "d"}
        found = torch.from_numpy(kernel.interpret(**given, **scalars, level="ptx").astype("f4"))
        if spec.batch is UNBATCHED:
            operands["d"].copy_(found)
            return
        places = operands["d"].matrices if spec.lists else operands["d"]
        counts = operands["counts"] if spec.counts else [spec.m] * spec.batch
        for place, product, count in zip(places, found, counts, strict=True):
            place[: int(count)] = product[: int(count)]


def as_numpy(x: torch.Tensor) -> Any:
    """The array of a tensor; types that numpy lacks are those of ml_dtypes."""
    library = element_type(name_of(x.dtype)).library
    return x.contiguous().view(torch.uint8).numpy().view(getattr(ml_dtypes, library, None) or library)


def send(operands: Mapping[str, Any]) -> None:
    """Sends the shard of this rank and its flags to the addresses in `peers`."""
    rank, epoch, _ = operands["turn"].tolist()
    shard, peers = operands["a"][rank], operands["peers"].view(torch.int64).tolist()
    for peer in (rank - step for step in range(1, len(peers))):
        place, flag = peers[peer]
        ctypes.memmove(place, shard.data_ptr(), shard.nbytes)
        ctypes.c_int32.from_address(flag).value = epoch


def arrives(shard: int, arrived: torch.Tensor, turn: torch.Tensor, status: torch.Tensor) -> bool:
    until = time.monotonic() + int(turn[2]) / 1000
    while int(arrived[shard]) < int(turn[1]):
        if time.monotonic() > until:
            status.copy_(torch.tensor([1, shard, int(arrived[shard]), int(turn[1])]))
            return False
        time.sleep(0.0005)
    return True


class Streams:
    """Streams whose work is done at once, by the calling thread."""

    beside = 1

    def __init__(self, device: Any) -> None:
        pass

    def current(self) -> int:
        return 0

    def join(self) -> None:
        pass

    def order(self, first: int, then: int) -> None:
        pass

    def copy(self, to: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(to, source, size)


def _kernel_sends(spec: Any, sender: str | None) -> bool:
    """Rows are sent by copy engine and kernel in turn, if the call does not say it."""
    return (sender or sending.SENDERS[next(_numbers) % 2]) == sending.KERNEL


@contextlib.contextmanager
def gpus(rank: int, launches: Any = Launches) -> Iterator[None]:
    """In this context, tensors on the CPU are taken for tensors on a GPU of this rank."""
    listed = lambda places: SimpleNamespace(address=next(_numbers), matrices=places)  # noqa: E731
    with contextlib.ExitStack() as stack:
        for where, name, what in (
            (exchange, "Window", Window),
            (exchange, "Launches", launches),
            (exchange, "Streams", Streams),
            (gathering, "kernel_sends", _kernel_sends),
            (scattering, "sends_copies", lambda *given: next(_numbers) % 2 == 0),
            (scattering, "matrix_list", listed),
            (agreement, "_FEWEST_ROWS", 1),
            (agreement, "_FEWEST_SENT", 0),
            (symmetric, "why_not", lambda device, group: ""),
            (symmetric, "name_of_gpu", lambda device: str(rank)),
            (symmetric, "try_to_share", lambda device, group: ""),
            (torch.cuda, "device", lambda device: contextlib.nullcontext()),
            (torch.cuda, "synchronize", lambda device=None: None),
        ):
            stack.enter_context(mock.patch.object(where, name, what))
        yield
