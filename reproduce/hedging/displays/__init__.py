"""Figures of the paper on hedging that no other page needs."""
