"""`lowtide fuzz`: random problems and schedules, steered to pairs of words that no kernel had yet."""
