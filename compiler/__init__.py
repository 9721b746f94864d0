"""Compiles a spec or IR to a kernel: the front end, the driver that runs the passes, and saved kernels."""
