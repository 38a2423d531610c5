"""Published results on Corel5K, and the titles of tables and figures."""

from __future__ import annotations

FIGURES = {
    "table1": "Table 1: precision, recall and words found on Corel5K",
    "1": "Figure 1: precision, recall and words found by the number of neighbors",
    "cv": "What recall shall count, cross-validated on the training images",
    "examples": "Twelve test images with their keywords, given and found",
}
SEVEN, FIFTEEN, EMBEDDINGS, BOTH = "seven", "fifteen", "embeddings", "both"
FEATURES = {
    SEVEN: "seven descriptors",
    FIFTEEN: "fifteen descriptors",
    EMBEDDINGS: "embeddings",
    BOTH: "embeddings and descriptors",
}

# What each figure can be made from; examples from the first of these unless another is named.
FEATURES_OF = {
    "table1": tuple(FEATURES),
    "1": (SEVEN,),
    "cv": (FIFTEEN, EMBEDDINGS, BOTH),
    "examples": (EMBEDDINGS, FIFTEEN, BOTH),
}

CLASSICAL, CNN = "published descriptors", "published CNN features"

# Precision and recall in percent, words found; from the tables of the papers, or of later papers that compare them.
PUBLISHED: tuple[tuple[str, str, float, float, int], ...] = (
    ("JEC (2008)", FEATURES[SEVEN], 27, 32, 139),
    ("LASSO (2008)", FEATURES[SEVEN], 24, 29, 127),
    ("MSC (2009)", FEATURES[SEVEN], 25, 32, 136),
    ("GS (2010)", FEATURES[SEVEN], 30, 33, 146),
    ("NW-RNN (2013)", FEATURES[SEVEN], 29, 32, 149),
    ("RNN (2013)", FEATURES[SEVEN], 31, 34, 149),
    ("TagProp (2009)", CLASSICAL, 33, 42, 160),
    ("2PKNN (2012)", CLASSICAL, 39, 40, 177),
    ("2PKNN, learned metric (2012)", CLASSICAL, 44, 46, 191),
    ("FastTag (2013)", CLASSICAL, 32, 43, 166),
    ("SKL-CRM (2014)", CLASSICAL, 39, 46, 184),
    ("KCCA (2015)", CNN, 39, 53, 184),
    ("CCA-KNN (2015)", CNN, 42, 52, 201),
    ("NSIDML (2016)", CNN, 44.1, 51.8, 194),
    ("AWD-IKNN (2016)", CNN, 42, 55, 198),
)

NOTES = {
    "table1": [
        "P and R: in percent, in the mean over all 260 words; N+: words that were right at least once. Every image is"
        " given five words.",
        "Ours and all else that is learned or chosen: from the 4,500 training images alone. JEC, LASSO and GS transfer"
        " from five neighbors.",
        "The seven descriptors are computed anew from the images; the published rows have descriptors of their own.",
    ],
    "1": ["Relevance as in the paper: how many more of k neighbors have a word than of k random images."],
    "cv": [
        "Worth gives the words that are expected to add most to mean precision and recall. Measured on nine parts of"
        " 500 training images, by models that had not seen them; chosen by F1 = 2PR/(P + R).",
    ],
    "examples": ["The five most probable words, most probable first."],
}
