"""The rules that scripts/tidy checks, one module a kind."""
