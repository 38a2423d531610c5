"""The page: ask a collection, see the neighbors and the vote, correct a label and watch it count.

Nothing is computed here: pages show what the collection and its evaluation said.
"""
