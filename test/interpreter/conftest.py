"""This file puts helpers on the path of tests below."""
