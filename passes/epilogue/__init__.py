"""The epilogue of one tile, taken apart by lower-epilogue: its parts, and its stores by TMA."""
