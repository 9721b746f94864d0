"""Shows kernels: reports and pictures."""
