"""`lowtide fuzz`: random problems and schedules, guided to pairs of words that no kernel has had yet."""
