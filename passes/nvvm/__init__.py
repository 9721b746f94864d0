"""How convert-sm-to-nvvm writes one thread's program: values, addresses, and one file for each family of ops."""
