"""Sums that several work items share."""
