"""The manifest of a kernel: what the runtime needs to launch it, from its host-side IR."""
