"""What shows kernels: reports and pictures."""
