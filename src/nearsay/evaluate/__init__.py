"""How good answers are, in numbers and in pictures, and the plain dictionaries that the command line shows."""
