"""Roles as branches, and the barriers that join them."""
