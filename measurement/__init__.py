"""What measures kernels: benchmarks and tuning."""
