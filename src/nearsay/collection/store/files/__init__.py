"""Files of a collection: opened by folder handle, written durably, locked by one writer."""
