"""Calibrates the cost model of wgmma tiles: which schedules are timed on which shapes, and the fit of the constants."""
