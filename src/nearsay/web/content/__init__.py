"""Content of the pages: filters, caches, the map, uploads, the review queue."""
