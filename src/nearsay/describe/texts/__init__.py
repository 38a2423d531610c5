"""Texts to vectors: words and character n-grams, a sentence encoder, and the words that two texts share."""
