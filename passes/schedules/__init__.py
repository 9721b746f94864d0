"""Schedules: how they are chosen, what they must satisfy, what follows from them."""
