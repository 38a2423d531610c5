"""Annotation methods that the paper compares with: learned weights of feature spaces, and sparse coding."""
