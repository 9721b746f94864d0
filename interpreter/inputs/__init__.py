"""The inputs of a run: arrays and numbers, checked like the operands of a launch, and copied to memory."""
