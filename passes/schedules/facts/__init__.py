"""Facts that follow from a schedule, a problem and a target: threads, bytes, registers, alignment, timing."""
