"""Published figures on hedging: Table 1 of the paper on k-NN, and the output of the DARTS authors' program.

Nothing is imported, so that the command line can list the figures at once.
"""

from __future__ import annotations

ILSVRC65, TIN200, TIN200_50, TIN57 = "ilsvrc65", "tin200", "tin200-50", "tin57"

# Metrics are learned on these, which takes minutes; they are used when asked for by name.
LEARNED_DATA = (TIN200_50, TIN57)
HEDGED_DATA = (ILSVRC65, TIN200, *LEARNED_DATA)

# Sets without a tree, where learned metrics are compared: the feature groups of the leaves, and MNIST in 50 columns.
LEAVES = {group: f"leaves-{group}" for group in ("margin", "shape", "texture")}
MNIST_50 = "mnist-50"
DATA = (*HEDGED_DATA, *LEAVES.values(), MNIST_50)

# The data of a figure that has a line for each of its sets.
EVERY_SET = "every set"

FIGURES = {
    "lambda": "The reward shifts λ of DARTS, beside the authors'",
    "promise": "The accuracy asked for, and the accuracy got",
    "3": "Figure 3: accuracy and normalized gain",
    "4": "Figure 4: votes and Atiya's weights, for several k",
    "5": "Figure 5: F score against k",
    "6": "Figure 6: neighbors and other classifiers, hedged by DARTS",
    "7": "Figure 7: what the answers are made of",
    "8": "Figure 8: wrong flat answers that DARTS puts right",
    "9": "Figure 9: the neighbors of one query, and how similar they are",
    "table1": "Table 1: flat answers, and the best F of hedged ones",
    "metrics": "Learned metrics: the accuracy of 20 neighbors",
    "ours": "HedgedClassifier as it comes: neighbors alone, and beside a linear model",
    "splits": "The promise with confidence 0.95: kept in how many splits",
    "sets": "Sets of a few nodes, beside the hedged node",
    "risk": "Risk against coverage: climbing beside DARTS",
}

# The outputs of the authors' SVMs are all there is of ILSVRC65: no features, so no neighbors.
DATA_OF = {
    "lambda": (ILSVRC65,),
    "promise": (ILSVRC65, TIN200),
    "3": HEDGED_DATA,
    "4": (TIN200, *LEARNED_DATA),
    "5": (TIN200, *LEARNED_DATA),
    "6": (TIN200, *LEARNED_DATA),
    "7": (ILSVRC65, TIN200),
    "8": (ILSVRC65, TIN200),
    "9": (TIN200,),
    "table1": HEDGED_DATA,
    "metrics": (*LEAVES.values(), MNIST_50, *LEARNED_DATA),
    "ours": (TIN200,),
    "splits": (TIN200,),
    "sets": (ILSVRC65, TIN200),
    "risk": (ILSVRC65, TIN200),
}

# Classifiers are trained or metrics learned for these, which takes minutes; they are shown when asked for by name.
SLOW = ("6", "table1", "metrics", "ours", "splits", "sets", "risk")

# Percent, on ILSVRC65 with 50 PCA columns of its LLC features, k = 20.
TABLE_1 = {
    "Euclidean": {"accuracy_percent": 18.02, "similarity_percent": 60.94},
    "LMNN": {"accuracy_percent": 16.34, "similarity_percent": 59.79},
    "BoostMetric": {"accuracy_percent": 9.87, "similarity_percent": 54.15},
    "ITML": {"accuracy_percent": 21.19, "similarity_percent": 64.16},
    "SVM": {"accuracy_percent": 24.01, "similarity_percent": 62.01},
}

# (accuracy asked for, λ from the validation images, accuracy and normalized gain on the test images), as the
# MATLAB program of Deng, Krause, Berg and Fei-Fei (2012) gives them with confidence 0.95.
AUTHORS = (
    (0.0, 0.0, 0.567485, 0.414979),
    (0.1, 0.0, 0.567485, 0.414979),
    (0.2, 0.0, 0.567485, 0.414979),
    (0.3, 0.0, 0.567485, 0.414979),
    (0.4, 0.0, 0.567485, 0.414979),
    (0.5, 0.0, 0.567485, 0.414979),
    (0.6, 0.167376, 0.620234, 0.413322),
    (0.7, 0.501449, 0.700117, 0.404438),
    (0.8, 1.018948, 0.801053, 0.383060),
    (0.85, 1.393551, 0.852515, 0.360869),
    (0.9, 1.944213, 0.906784, 0.333375),
    (0.95, 2.962010, 0.953684, 0.282261),
    (0.99, 5.545548, 0.991228, 0.189050),
)
AUTHORS_CONFIDENCE = 0.95

_LEFT_OUT = "λ is read from the training rows, each left out once, so no data is given away. The test rows are judged."
_LEARNED = (
    "λ is read from the training rows, each left out once. A learned metric has seen their labels: there, settings are"
    " chosen and λ is read on a fifth of them, by a metric learned from the others. The test rows are judged."
)
_PAST = {
    ILSVRC65: "λ is read from the even validation images; the odd ones are judged.",
    TIN200: _LEFT_OUT,
    TIN200_50: _LEARNED,
    TIN57: _LEARNED,
}
_BISECTION = "It is found as the authors do: by bisection, with confidence 0.95."
_SMALLEST = "It is the smallest that keeps the accuracy there."
_LEAVES = (
    "Leaves: 64 numbers of one feature group, for 16 leaves of each of 100 species (with texture, one is missing). Of"
    " every species each fourth leaf is judged by the others, in four turns, so all are judged once."
)
_SETS = {
    **dict.fromkeys(LEAVES.values(), _LEAVES),
    MNIST_50: "MNIST: each twelfth training image, all 10,000 test images, in 50 principal components of the former.",
    TIN200_50: "tin200-50: the first 50 of 256 principal components; 100 training and 25 test rows of each of 200"
    " classes.",
    TIN57: "tin57: 12 vehicles and 45 of 59 animals, in 50 principal components. The paper has 100, 50 and 150 rows a"
    " class to learn from, to choose by and to judge, here they are 80, 20 (100 in the end) and 25.",
}
_BOOSTED = (
    "BoostMetric starts from zero and takes every round, as in the paper; ours starts from the Euclidean metric and"
    " stops when held-out rows gain no more. Settings of LMNN and of ours are chosen on 100 classes at most; NCA learns"
    " from 4,000 rows at most."
)
_METHODS = (
    "FLAT-REJ and the fixed threshold (the rule of iNaturalist) take the accuracy asked for as their threshold;"
    " DARTS and calibrated FLAT-REJ search for a setting that keeps it."
)
_FEATURES = (
    "The features of ILSVRC65 are not to be had, so the neighbors are those of another set of images: compare the"
    " order of methods with the paper's, not the figures."
)

_NOTES = {
    "lambda": [
        "λ is found by bisection on all 2,850 validation images. The authors' test images are not to be had: accuracy"
        " and gain there are theirs, those beside λ are on the validation images."
    ],
    "promise": ["The rows that λ is read from keep the accuracy; or, by fixed-sequence testing, with confidence 0.95."],
    "3": [_METHODS],
    "4": ["All of it is DARTS."],
    "5": ["F = 2AG/(A+G), the largest over accuracies asked for from 0 to 0.99; Atiya's weights."],
    "6": [
        "The support vector machine: one against all, linear, on rows of unit length, Platt scaling. What is no"
        " neighbor is asked about rows that it was not fitted on, fold by fold, to read λ.",
        "Gains where accuracy is 0.95 on the training rows, and on the test rows; then what test rows got when 0.95 was"
        " asked for.",
        "The best of ours is what says the most about training rows at accuracy 0.95; test rows have no part in it.",
    ],
    "7": ["Shares of all answers: wrong, and right by the bits that they say."],
    "8": ["Rows in even steps, of those where the flat answer is wrong and DARTS, asked for 0.7, is right."],
    "9": ["Similarity of each neighbor's label to the true one: shared nodes of their paths, without the root."],
    "table1": [
        "Similarity: shared nodes of the paths, without the root; as the paper prints it, a random guess would score"
        " 66 %, more than any value of its table.",
        "F = 2AG/(A+G), the largest over accuracies asked for from 0 to 0.99, by plain votes and by Atiya's weights.",
    ],
    "metrics": [
        "Percent of the judged rows; below, the points above the Euclidean distance. ± is one standard error of such a"
        " difference, the largest of the line.",
        "Settings are chosen by the votes of 20 neighbors on rows held out of those to learn from: a fifth of these,"
        " two of the leaves. Where no setting is better there than the Euclidean distance, that is kept.",
    ],
    "ours": [
        "Rule, setting and, where it is left open, posterior are chosen on the training rows, by what says the most at"
        " the accuracy asked for. The test gain is where the accuracy is 0.95 on the test rows; then what was got when"
        " 0.95 was asked for.",
        "Logistic regression alone is asked about each of five folds by a model fitted without it; these models answer"
        " the test rows together.",
    ],
    "splits": [
        "First every row is answered once, by training rows other than itself, and in each split settings are read from"
        " some rows. Then classifiers are fitted anew in each split, on some rows of 20 classes in 32 columns, and"
        " their settings are read from these rows too, each left out once.",
        "The promise is about new rows, drawn as those were that settings are read from: from all rows. The rows left"
        " over are not quite that: where the ones drawn come out easy, the others are harder.",
    ],
    "sets": [
        "Both promises are read from the same past rows and judged on the same others. A wrong answer says nothing; a"
        " right one log2 of all leaves by those in the set. Of sets, lac is for the most bits, aps for the fewest"
        " leaves whose probability reaches a threshold; the hedge takes the better of its two rules.",
    ],
    "risk": [
        "hAURC as Goren, Galil and El-Yaniv (2024) define it: the area under the share of wrong answers, among those"
        " that are not the root, over how much all answers narrow down. flat-reject is selection without the tree."
        " The temperature has the smallest log loss of the past rows.",
    ],
}


def notes_for(figure: str, data: str) -> list[str]:
    """What a reader should know about a figure.

    >>> notes_for("7", "tin200")[0]
    'Shares of all answers: wrong, and right by the bits that they say.'
    """
    notes = [*_NOTES[figure]]
    if figure == "metrics":
        return [*notes, *dict.fromkeys(_SETS[one] for one in DATA_OF[figure] if data in (one, EVERY_SET))]
    if figure == "table1" and data == ILSVRC65:
        notes.append(
            "These are the authors' machines, on 100,000 columns; the paper's had 50, by PCA of a tenth of them."
        )
    if figure not in ("lambda", "9", "ours", "splits", "sets", "risk"):
        search = _BISECTION if data == ILSVRC65 else _SMALLEST
        notes.append(_PAST[data] if figure == "promise" else f"{_PAST[data]} {search}")
    if data in LEARNED_DATA:
        notes.append(_SETS[data])
        if figure in ("3", "6", "table1"):
            notes.append(_BOOSTED)
    if data != ILSVRC65 and figure in ("4", "5", "6", "table1"):
        notes.append(_FEATURES)
    return notes
