"""The work of warps and CTAs, and the instructions that do it."""
