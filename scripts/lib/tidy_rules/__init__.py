"""The rules that scripts/tidy checks, one module per kind."""
