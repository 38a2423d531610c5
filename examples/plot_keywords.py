"""
Keywords from the neighbors
===========================

An item can have several keywords. Its neighbors pass theirs on, each with a
probability and with the neighbors that have it.
"""

from sklearn.datasets import load_digits

import nearsay as ns
from nearsay.displays.annotated_images import AnnotatedImage

digits = load_digits()
words = [
    ["zero", "even", "loop"],
    ["one", "odd", "stroke"],
    ["two", "even", "prime", "curve"],
    ["three", "odd", "prime", "curve"],
    ["four", "even", "square", "stroke"],
    ["five", "odd", "prime", "curve"],
    ["six", "even", "loop"],
    ["seven", "odd", "prime", "stroke"],
    ["eight", "even", "loop"],
    ["nine", "odd", "square", "loop"],
]
given = [words[digit] for digit in digits.target]
few = digits.data[:, ::3]  # every third pixel: hard enough for some words to be wrong
annotator = ns.KeywordAnnotator(n_neighbors=9, n_keywords=4).fit(few[:200], given[:200])

# %%
# Six digits that it has not seen: words in blue are right, words in orange are not.
# Below each digit are its four nearest neighbors.

chosen = [401, 515, 646, 793, 885, 1023]
annotations = annotator.annotate(few[chosen])
ns.displays.AnnotatedImagesDisplay(
    [
        AnnotatedImage(
            -digits.images[row],
            given[row],
            annotation.words,
            annotation.probabilities,
            [-digits.images[neighbor] for neighbor in annotation.neighbors[:4]],
        )
        for row, annotation in zip(chosen, annotations, strict=True)
    ]
).plot()

# %%
# The first of them in words:

print(annotations[0])
