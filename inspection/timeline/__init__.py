"""What each agent of a kernel does when: intervals as data, and as a trace that Perfetto opens."""
