"""What a kernel carries: the problem, with types, layouts and operands, and the schedule."""
