"""Calibrates the cost model of wgmma tiles: picks schedules, times them on drawn shapes, and fits the constants."""
