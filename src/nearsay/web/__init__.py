"""The web page of a collection: ask it, browse it, correct it, judge it.

Nothing is computed here: pages show what the collection and its evaluation give.
"""
