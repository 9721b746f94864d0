"""The user's epilogue: traced, emitted as scalar IR, evaluated in numpy, bounded."""
