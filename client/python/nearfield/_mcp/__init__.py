"""The parts of nearfield.mcp: tools, their arguments, the values of replies, and HTTP."""
