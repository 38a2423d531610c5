"""Plain dictionaries that the command line shows, and the report: what is installed, how good answers are, the tour."""
