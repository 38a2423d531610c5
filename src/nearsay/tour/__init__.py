"""The guided tour: the main features on data that comes with the package."""
