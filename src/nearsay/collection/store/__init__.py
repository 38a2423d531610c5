"""A collection on disk: the database, its event log, vectors in shards, backup, undo, integrity checks."""
