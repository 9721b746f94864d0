"""Timelines: what each agent of a kernel does and when, as data, and as a trace that Perfetto opens."""
