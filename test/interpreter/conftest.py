"""Puts this folder's helpers where tests in folders below find them."""
