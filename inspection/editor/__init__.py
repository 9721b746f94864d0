"""What an editor shows of IR: errors, documentation, definitions and uses, origins. `lowtide lsp` serves it."""
