"""The errors that Lowtide raises on purpose, one class for each stage that refuses input.

A message says what is wrong, the limit, and the way out, in that order. It ends with the code of the broken rule in
brackets: `ctas_per_sm = 40: sm_80 holds 1 to 32 CTAs per SM [ctas-per-sm]`. Each code is written at one place in the
source.
"""

import re

# Two or more words joined by hyphens: neither `[128, 256]` nor `[k]` is a code.
_CODE = re.compile(r"(?<!\S)\[([a-z][a-z0-9]*(?:-[a-z0-9]+)+)\](?=[\s;:,.)]|$)")


class Error(Exception):
    """Base of all Lowtide errors."""

    @property
    def code(self) -> str | None:
        """The code of the broken rule, such as `ctas-per-sm`; None if the message has none.

        A message that quotes another one keeps that one's code. If there are several codes, the last one counts.
        """
        return code_of(str(self))


def code_of(message: str) -> str | None:
    """The last code in a message; None if it has none."""
    codes = _CODE.findall(message)
    return codes[-1] if codes else None


def before_code(message: str, more: str) -> str:
    """`message` with `more` after its text and before its code."""
    *_, last = [None, *_CODE.finditer(message)]
    if last is None or last.end() != len(message):
        return message + more
    return f"{message[: last.start()].rstrip()}{more} {last[0]}"


def with_code(message: str, code: str) -> str:
    """`message` with a code at its end, unless it quotes a message that has one."""
    return message if _CODE.search(message) else f"{message} [{code}]"


def without_codes(message: str) -> str:
    """The text of a message without codes, for another message with a code of its own."""
    return re.sub(rf"\s?{_CODE.pattern}", "", message)


class SpecError(Error):
    """An invalid `GemmSpec`: unknown dtype or layout, impossible size, or an epilogue that cannot be traced."""


class ArgumentError(SpecError, TypeError):
    """A keyword that a function does not take, or a field that `GemmSpec` does not have."""


class TargetError(Error):
    """An unknown target, or a target that cannot run the kernel."""


class ScheduleError(Error):
    """A schedule that breaks a rule of the target or does not fit the problem."""


class IRError(Error):
    """IR that does not parse, does not verify, or does not belong to the level it claims."""


class PassError(IRError):
    """A pass refused an op. The message names the op, its location and the rule, and the reproducer if there is one."""


class InterpreterError(Error):
    """The interpreter found a violation of the hardware's rules (race, deadlock, out of bounds, …)."""


class NotInterpreted(InterpreterError):
    """The interpreter cannot run it, which says nothing about the kernel: an op without semantics at its level, or an
    operation that a number domain lacks."""


class InterpreterFault(Error):
    """A Python exception inside the interpreter: a fault of the interpreter, which says nothing about the kernel."""


class CompileError(Error):
    """LLVM or ptxas refused the code, or the machine code spills or was serialized."""


class LoadError(Error):
    """A saved kernel that is truncated, from another version, or for another architecture."""


class LaunchError(Error):
    """Call-time arguments that do not match the kernel, or a launch that the driver refused."""


class MisalignedError(LaunchError):
    """A base address or stride that is not aligned for the kernel's accesses."""


class DeviceError(Error):
    """No GPU, no driver, or a driver call that failed."""


class DependencyError(Error, ImportError):
    """An optional package that is needed but not installed."""


class CacheWarning(UserWarning):
    """A damaged kernel in the cache, which is compiled again, or a cache folder that cannot be written."""
