"""Keywords of a collection: the view and the calibration that are learned for them, and the answers."""
