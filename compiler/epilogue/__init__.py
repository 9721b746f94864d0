"""The user's epilogue: tracing, emission as scalar IR, evaluation in numpy, and error bounds."""
