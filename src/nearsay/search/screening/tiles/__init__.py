"""Products of 8-bit tiles for each family of processors, and the choice of one."""
