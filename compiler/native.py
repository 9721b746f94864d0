"""The target that is compiled for where none is named: that of the GPU at hand; without a GPU, sm_90a.

`native` is refused without a GPU. Any other name gives the same kernel on every machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide import targets
from lowtide.errors import DeviceError, TargetError, without_codes
from lowtide.runtime import driver
from lowtide.runtime.module import choose_code
from lowtide.targets import KNOWN, Target

NATIVE = "native"
WITHOUT_GPU = "sm_90a"  # the default target on a machine without a GPU


@dataclass(frozen=True)
class Chosen:
    """A target, and why it is that one."""

    name: str
    reason: str
    gpu: str = ""
    """The model of the GPU that it was chosen for; "" if it was named, or if there is no GPU."""
    not_on_gpu: str = ""
    """Why nothing can run on a GPU here; "" if that is not known."""

    @property
    def target(self) -> Target:
        """Raises TargetError for an unknown name."""
        return targets.get(self.name)


def resolve(given: str | None) -> Target:
    """The target of a name; of None or `native`, the one that `choose` takes. Raises TargetError, DeviceError."""
    return choose(given).target


def native_target() -> tuple[Target, driver.Device]:
    """The best target for the GPU at hand, and that GPU: the one of the current context, else the first.

    Best is the target for exactly this architecture (sm_90a on a GPU of 9.0), else the newest that runs there, if
    possible one whose kernels need no more shared memory than the GPU has. Raises DeviceError if there is no GPU,
    TargetError if no target runs on it.
    """
    way_out = f"name a target: {', '.join(target.name for target in KNOWN)}"
    try:
        return _fitting(KNOWN)
    except DeviceError as error:
        raise DeviceError(f'target="{NATIVE}" needs a GPU: {_first_clause(error)}; {way_out} [native-gpu]') from None
    except TargetError as error:
        raise TargetError(
            f'target="{NATIVE}": {without_codes(str(error))}; {way_out}, for another GPU [native-target]'
        ) from None


def target_of(gpu: driver.Device) -> Target:
    """The best target for a GPU, as `native_target` finds it. Raises TargetError if none runs on it."""
    return _best(KNOWN, gpu)


def choose(given: str | None, among: Sequence[Target] = KNOWN) -> Chosen:
    """The target that is given, else that of the GPU at hand, else WITHOUT_GPU.

    Raises what `native_target` raises if `native` is given.
    """
    if given is not None and given != NATIVE:
        return Chosen(given, "as asked")
    if given is not None:
        native_target()
    try:
        target, gpu = _fitting(among)
    except (DeviceError, TargetError) as error:
        reason = _first_clause(error)
        return Chosen(WITHOUT_GPU, reason, not_on_gpu=reason)
    return Chosen(target.name, f"{NATIVE}: {gpu.name}", gpu.name)


def _fitting(among: Sequence[Target]) -> tuple[Target, driver.Device]:
    gpu = driver.current_device()
    return _best(among, gpu), gpu


def _best(among: Sequence[Target], gpu: driver.Device) -> Target:
    running = [target for target in among if choose_code(target.name, gpu.capability, has_cubin=False)]
    if not running:
        raise TargetError(
            f"no target runs on {gpu.name}, of compute capability {'.'.join(map(str, gpu.capability))}"
            " [no-target-for-gpu]"
        )
    fitting = [target for target in running if target.smem_bytes_per_cta <= gpu.shared_memory] or running
    return max(fitting, key=lambda target: (target.compute_capability, target.architecture_specific))


def _first_clause(error: Exception) -> str:
    """What is wrong, without details in brackets and the way out."""
    return without_codes(str(error)).partition(";")[0].partition(" (")[0]
