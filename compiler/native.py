"""`target="native"`: the known target that fits the GPU at hand best.

Only `native` depends on the GPU at hand; any other target gives the same kernel on every machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide import targets
from lowtide.errors import DeviceError, TargetError
from lowtide.runtime import driver
from lowtide.runtime.module import choose_code
from lowtide.targets import KNOWN, Target

NATIVE = "native"
WITHOUT_GPU = "sm_90a"  # what the command line compiles for where there is no GPU


@dataclass(frozen=True)
class Chosen:
    """A target for the command line, and why it is that one."""

    name: str
    reason: str
    not_on_gpu: str = ""
    """Why nothing can run on a GPU here; "" where that is not known."""


def resolve(name: str) -> Target:
    """The target of this name; of `native`, `native_target`'s. Raises TargetError, DeviceError."""
    return native_target()[0] if name == NATIVE else targets.get(name)


def native_target() -> tuple[Target, driver.Device]:
    """The best target for the GPU at hand, and that GPU: the one of the current context, else the first.

    Best is the target for exactly this architecture (sm_90a on a GPU of 9.0), else the newest that runs there, if
    possible one whose kernels ask for no more shared memory than the GPU has. Raises DeviceError where there is no GPU,
    TargetError where no target runs on it.
    """
    way_out = f"name a target: {', '.join(target.name for target in KNOWN)}"
    try:
        return _fitting(KNOWN)
    except DeviceError as error:
        raise DeviceError(f'target="{NATIVE}" asks for the GPU at hand: {_first_clause(error)}; {way_out}') from None
    except TargetError as error:
        raise TargetError(f'target="{NATIVE}": {error}; {way_out}, for another GPU') from None


def target_of(gpu: driver.Device) -> Target:
    """The best target for a GPU, as `native_target` finds it. Raises TargetError where none runs on it."""
    return _best(KNOWN, gpu)


def choose(given: str | None, among: Sequence[Target] = KNOWN) -> Chosen:
    """The target of a command: the one given, else that of the GPU at hand, else WITHOUT_GPU.

    Raises what `native_target` raises where `native` is given.
    """
    if given is not None and given != NATIVE:
        return Chosen(given, "as asked")
    if given is not None:
        native_target()
    try:
        target, gpu = _fitting(among)
    except (DeviceError, TargetError) as error:
        reason = _first_clause(error)
        return Chosen(WITHOUT_GPU, reason, reason)
    return Chosen(target.name, f"{NATIVE}: {gpu.name}")


def _fitting(among: Sequence[Target]) -> tuple[Target, driver.Device]:
    gpu = driver.current_device()
    return _best(among, gpu), gpu


def _best(among: Sequence[Target], gpu: driver.Device) -> Target:
    running = [target for target in among if choose_code(target.name, gpu.capability, has_cubin=False)]
    if not running:
        raise TargetError(f"no target runs on {gpu.name}, of compute capability {'.'.join(map(str, gpu.capability))}")
    fitting = [target for target in running if target.smem_bytes_per_cta <= gpu.shared_memory] or running
    return max(fitting, key=lambda target: (target.compute_capability, target.architecture_specific))


def _first_clause(error: Exception) -> str:
    """What is wrong, without details in brackets and the way out."""
    return str(error).partition(";")[0].partition(" (")[0]
