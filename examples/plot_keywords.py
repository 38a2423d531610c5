"""
Keywords from the neighbors
===========================

An item can have several keywords. Its neighbors pass theirs on, each with a
probability and with the neighbors that have it.

`Open this in Colab <https://colab.research.google.com/github/nearsay/nearsay/blob/main/docs/notebooks/plot_keywords.ipynb>`_.
"""

from sklearn.datasets import load_digits

import nearsay as ns

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
ns.displays.AnnotatedImagesDisplay.from_estimator(
    annotator,
    few[chosen],
    [given[row] for row in chosen],
    query_images=-digits.images[chosen],
    images=-digits.images[:200],
)

# %%
# The first of them in words:

print(annotator.annotate(few[chosen[:1]])[0])
