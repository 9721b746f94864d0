"""The corners: eight shapes in every type, sums and layout, each beside the better of torch and cuBLASLt's best."""
