"""What judges results: the float64 reference, its error bound, verdicts, and runs on CPU and GPU."""
