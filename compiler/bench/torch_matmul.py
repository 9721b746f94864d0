"""torch.matmul, or torch.bmm of a batch, with sums in the type that is asked for where torch has a setting for it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lowtide.compiler.bench.gpu_timing import Contender, Operands
from lowtide.elements import ELEMENTS, element_type
from lowtide.errors import DeviceError

NAME, BATCHED_NAME = "torch.matmul", "torch.bmm"


def check_sums(torch: Any, dtype: str, acc: str) -> None:
    """Raise DeviceError where torch.matmul does not sum products of `dtype` in `acc`."""
    if acc == element_type(dtype).computes_in:
        return
    setting = element_type(acc).torch_sums
    if setting is None or not hasattr(torch.backends.cuda.matmul, setting):
        raise DeviceError(
            f"torch {torch.__version__} cannot be told to sum products of {dtype} in {acc}"
            + (f" (torch.backends.cuda.matmul.{setting}, of torch 2.7 and later)" if setting else "")
            + f"; time sums in {element_type(dtype).computes_in}"
        )


def torch_matmul(torch: Any, sets: Sequence[Operands], acc: str, *, batched: bool = False) -> Contender:
    """The contender: D = A · B of set i, summed in `acc`."""

    def launch(i: int) -> None:
        with _sums_in(torch, acc):
            multiply = torch.bmm if batched else torch.matmul
            multiply(sets[i].logical_a, sets[i].logical_b, out=sets[i].d)

    return Contender(BATCHED_NAME if batched else NAME, launch)


@contextmanager
def _sums_in(torch: Any, acc: str) -> Iterator[None]:
    """torch's settings as `acc` needs them; afterwards as they were."""
    settings = torch.backends.cuda.matmul
    names = {row.torch_sums: row.name for row in ELEMENTS.values() if row.torch_sums is not None}
    before = {setting: getattr(settings, setting) for setting in names if hasattr(settings, setting)}
    for setting in before:
        setattr(settings, setting, names[setting] == acc)
    try:
        yield
    finally:
        for setting, value in before.items():
            setattr(settings, setting, value)
