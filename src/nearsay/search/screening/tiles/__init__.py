"""Products of 8-bit tiles for each family of processors, and which one serves here."""
