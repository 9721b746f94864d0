"""Every error that Lowtide raises on purpose, one class for each stage at which input is refused.

A message says what was wrong, the limit, and the way out, in that order.
"""


class Error(Exception):
    """Base of all Lowtide errors."""


class SpecError(Error):
    """An invalid `GemmSpec`: unknown dtype or layout, impossible size, or an epilogue that cannot be traced."""


class ArgumentError(SpecError, TypeError):
    """A keyword that a function does not take, or a field that `GemmSpec` does not have."""


class TargetError(Error):
    """An unknown target, or one that cannot run what it is given."""


class ScheduleError(Error):
    """A schedule that breaks a rule of the target or does not fit the problem."""


class IRError(Error):
    """IR that does not parse, does not verify, or does not belong to the level it claims."""


class PassError(IRError):
    """A pass refused an op. The message names the op, its location and the rule, and the reproducer if there is one."""


class InterpreterError(Error):
    """The interpreter found a violation of the hardware's rules (race, deadlock, out of bounds, …)."""


class NotInterpreted(InterpreterError):
    """What the interpreter cannot run, which says nothing about whether it is right: an op without a meaning at its
    level, or an operation that a number domain lacks."""


class InterpreterFault(Error):
    """A Python exception inside the interpreter: a fault of the interpreter, which says nothing about the kernel."""


class CompileError(Error):
    """LLVM or ptxas refused the code, or the machine code spills or was serialized."""


class LoadError(Error):
    """A saved kernel that is truncated, from another version, or for another architecture."""


class LaunchError(Error):
    """Call-time arguments that do not match the kernel, or a launch that the driver refused."""


class MisalignedError(LaunchError):
    """A base address or stride that the kernel's accesses cannot take."""


class DeviceError(Error):
    """No GPU, no driver, or a driver call that failed."""


class DependencyError(Error, ImportError):
    """An optional package that is needed here and not installed."""


class CacheWarning(UserWarning):
    """A cached kernel that is damaged and compiled again, or a cache folder that cannot be written."""
