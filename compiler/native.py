"""The default target: that of the GPU at hand, or sm_90a without a GPU.

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
    """A target, and the reason for it."""

    name: str
    reason: str
    gpu: str = ""
    """The model of the GPU that it was chosen for; "" if it was named, or without a GPU."""
    not_on_gpu: str = ""
    """Why kernels cannot run on a GPU here; "" if unknown."""

    @property
    def target(self) -> Target:
        """Raises TargetError for an unknown name."""
        return targets.get(self.name)


def resolve(given: str | None) -> Target:
    """The target of a name; for None or `native`, the one that `choose` returns. Raises TargetError, DeviceError."""
    return choose(given).target


def native_target() -> tuple[Target, driver.Device]:
    """The best target for the GPU at hand, and that GPU: the one of the current context, or else the first.

    The best target is the one for exactly this architecture (sm_90a on a GPU of 9.0), or else the newest that runs on
    it, preferably one that needs no more shared memory than the GPU has. Raises DeviceError if there is no GPU,
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
    """The best target for a GPU, as in `native_target`. Raises TargetError if none runs on it."""
    return _best(KNOWN, gpu)


def choose(given: str | None, among: Sequence[Target] = KNOWN) -> Chosen:
    """The given target, or that of the GPU at hand, or WITHOUT_GPU.

    Raises what `native_target` raises if `given` is `native`.
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
    """The first clause of an error, without details in brackets and advice."""
    return without_codes(str(error)).partition(";")[0].partition(" (")[0]
