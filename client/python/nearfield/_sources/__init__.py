"""Everything that can be uploaded, as a source of batches: see open.py."""
