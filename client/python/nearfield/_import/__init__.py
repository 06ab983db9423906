"""nearfield import: collections of other stores, and files of vectors."""
