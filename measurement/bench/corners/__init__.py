"""The corners: eight shapes in each type, type of sums and layout, compared with the faster of torch and cuBLASLt."""
