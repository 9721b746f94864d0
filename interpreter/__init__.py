"""Every level on a CPU, with the hardware's own rules; see `interpret`."""

from lowtide.interpreter.api import Loaded, interpret
from lowtide.interpreter.machine.exploration import Explored, Explorer, explore
from lowtide.interpreter.machine.interleavings import Report
from lowtide.interpreter.machine.options import MAX_STEPS
from lowtide.interpreter.machine.paths import Paths
from lowtide.interpreter.machine.traces import Trace

__all__ = ["MAX_STEPS", "Explored", "Explorer", "Loaded", "Paths", "Report", "Trace", "explore", "interpret"]
