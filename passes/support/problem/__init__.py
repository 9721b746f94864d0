"""The problem and the schedule that a kernel carries, with types, layouts and operands."""
