"""The nearest rows and the nearest members of each class, in one search; ``plan.py`` chooses the way."""
