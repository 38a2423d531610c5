"""Which rows are worth measuring: a backend per file proposes row numbers, and ``choose`` picks the backend."""
