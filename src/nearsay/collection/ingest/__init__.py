"""From sources to rows: tables, arrays and pictures are read in batches and described as vectors."""
