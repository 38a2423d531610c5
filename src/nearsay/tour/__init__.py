"""The tour: the main job on data that comes with the package, with pictures."""
