"""Measurements of kernels: benchmarks and tuning."""
