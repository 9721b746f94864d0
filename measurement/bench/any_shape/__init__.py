"""Randomly drawn shapes: their kernels, races and statistics, and the speed lines that judge them."""
