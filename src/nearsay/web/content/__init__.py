"""What the page shows of a collection, prepared and cached: filters, the map, uploads, the review queue."""
