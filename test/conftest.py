"""For all tests: kernels are compiled by the compiler under test, never taken from a cache of the machine."""

import os

os.environ["LOWTIDE_CACHE"] = "off"
