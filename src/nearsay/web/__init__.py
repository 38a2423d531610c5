"""The web page of a collection: query, browse, correct and evaluate it.

Nothing is computed here: pages show what the collection and its evaluation give.
"""
