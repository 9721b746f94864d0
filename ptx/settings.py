"""How a kernel is run: the order of its warps, budgets, and what shared memory is aligned to."""

import math
from dataclasses import dataclass

from lowtide.errors import LaunchError
from lowtide.interpreter.machine.options import Options

MAX_STEPS = 1_000_000
"""The default number of instructions that a warp may run."""
BASES = ("aligned", "worst")


@dataclass(frozen=True)
class Settings:
    """The settings of a run. Raises LaunchError for values out of range.

    At most `sms` CTAs, but at least one cluster, run at a time. `seed` determines the order of warps. Each warp runs at
    most `max_steps` instructions, and each run of the launches takes at most `minutes`. If the verdict of a run may not
    hold for every order of warps, `check` runs at most `orders` orders, for at most `seconds`. `base`: shared memory
    begins at a multiple of 1024 bytes ("aligned"), or is only as aligned as its variables declare ("worst"). If
    `strict`, it is an error to rely on behavior of the hardware that the PTX ISA does not guarantee; otherwise the
    report names it.
    """

    seed: int = 0
    sms: int = 2
    max_steps: int = MAX_STEPS
    orders: int = 20
    seconds: float = 10.0
    base: str = "aligned"
    strict: bool = False
    minutes: float = math.inf

    def __post_init__(self) -> None:
        if self.base not in BASES:
            raise LaunchError(f"base {self.base!r}: it is one of {', '.join(BASES)} [ptx-base]")
        if not self.minutes > 0:
            raise LaunchError(f"minutes = {self.minutes}: the limit must be greater than 0 [ptx-minutes]")
        if self.sms < 1 or self.max_steps < 1 or self.orders < 1:
            raise LaunchError(
                f"sms = {self.sms}, max_steps = {self.max_steps}, orders = {self.orders}: each is at least 1"
                " [ptx-budgets]"
            )

    @property
    def options(self) -> Options:
        """The options of the interpreter."""
        return Options(self.sms, self.seed, self.max_steps, self.base == "aligned", unwritten_values=True)
