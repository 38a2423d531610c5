"""Plain dictionaries that the command line shows: what is installed, how good answers are, and the tour."""
