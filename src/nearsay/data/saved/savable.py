"""The classes that a saved file may hold, each with its fields: the one table that saving and opening go by.

    name in files ──► module and class ──► fields and what they may hold (saved_fields.py)

A name in a file is a short one of this table, and stays when a class moves to another module. What a file holds is
checked against this table before a class is imported, and what is about to be saved, too: a new attribute of a fitted
estimator is declared here, or saving it is an error that names the place. Nothing here names a file, a URL, a store or
a machine, and no class here does when it is made.
"""

from __future__ import annotations

from nearsay.data.saved.saved_fields import (
    BOOL,
    FINITE,
    FLOAT,
    INT,
    JOBS,
    KEY,
    NONE,
    PLAIN,
    SLICE,
    TEXT,
    Kind,
    Savable,
    bools,
    chunks,
    count,
    dict_of,
    floats,
    ints,
    list_of,
    may,
    members_of,
    numbers,
    of,
    pair_of,
    plain_with,
    sparse_matrix,
    starts,
    texts,
    tuple_of,
    values,
)


def _class(where: str, **fields: Kind) -> Savable:
    """A class of nearsay's, and all of its fields."""
    return Savable(f"nearsay.{where}", fields)


def _estimator(where: str, settings: str, /, **fields: Kind) -> Savable:
    """An estimator: ``settings`` are plain data; what ``fit`` finds (``name_``, ``_name``) may be missing."""
    found = {name: may(kind) if name.startswith("_") or name.endswith("_") else kind for name, kind in fields.items()}
    return Savable(f"nearsay.{where}", {**dict.fromkeys(settings.split(), PLAIN), **found})


def _of_sklearn(where: str, **fields: Kind) -> Savable:
    """A model of scikit-learn that is made of plain data: fields that are not named hold nothing else."""
    return Savable(f"sklearn.{where}", {name: may(kind) for name, kind in fields.items()}, others=PLAIN)


# Classes that go by rows in other files: they are never saved, and the error says why.
ROWS_ELSEWHERE = frozenset(
    {
        "nearsay.neighbors.sharded.sharded_index:ShardedIndex",
        "nearsay.posterior.sharded:ShardedClassifier",
        "nearsay.search.shards:ShardedRows",
    }
)

# ------------------------------------------------------------------ families

DISTANCES = """Euclidean SquaredEuclidean Manhattan Chebyshev Minkowski Mahalanobis Cosine Correlation Canberra
    BrayCurtis Hamming Jaccard ChiSquare Hellinger Intersection JensenShannon KullbackLeibler TangentDistance
    ShapeContextDistance PrecomputedDistance ScaledDistance"""
SEARCHES = "ExactSearch TreeSearch ApproximateSearch GpuSearch JointSearch"
POSTERIORS = """Proportional Weighted Pooled Rank RankVotesplit DistVotesplit Confmat ConfmatRank
    ConfmatRankVotesplit"""
SKLEARN_MODELS = """LogisticRegression LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis GaussianNB MultinomialNB
    BernoulliNB ComplementNB RidgeClassifier Pipeline"""
SKLEARN_TRANSFORMERS = """StandardScaler MinMaxScaler MaxAbsScaler RobustScaler Normalizer PCA TruncatedSVD
    LabelBinarizer Pipeline"""
CLASSIFIERS = "NeighborClassifier FusedClassifier HedgedClassifier ConformalClassifier FoldModels GaussianClasses"
METRICS = "ITML LMNN BoostMetric WithinClassWhitening KeywordProjection LandmarkFeatures KeywordColumns SomeColumns"
ORDERINGS = """JointNeighbors LassoNeighbors GroupLassoNeighbors RankBoostNeighbors TransformedNeighbors
    TwoPassNeighbors"""
ANNOTATORS = f"{ORDERINGS} KeywordRegression MLkNN SparseCodingAnnotator KeywordAnnotator"

METRIC = plain_with(of(DISTANCES))
SEARCH = PLAIN | of(SEARCHES)
MODEL = of(f"{CLASSIFIERS} {SKLEARN_MODELS} {METRICS} {SKLEARN_TRANSFORMERS}", "classes")
STEP = of(f"{METRICS} {CLASSIFIERS} {SKLEARN_MODELS} {SKLEARN_TRANSFORMERS}")
TRANSFORMER = NONE | of(f"{METRICS} {SKLEARN_TRANSFORMERS}")
TAXONOMY = NONE | of("Taxonomy", "nodes")
LABELS = ints("rows", below="classes")
MEMBERS = NONE | members_of()

# ------------------------------------------------------------------ what several classes have in common

# A search is saved as its settings and rows, and built again from them: structures of other libraries are never read.
_ROWS = {"chunks": may(chunks("rows", "columns")), "removed": may(NONE | bools("rows"))}
_WEIGHTS = NONE | of("RowWeights", "rows")
_POSTERIOR = {
    "model_failure": FLOAT,
    "weights": may(_WEIGHTS),
    "labels_": may(LABELS),
    "n_classes_": may(count("classes")),
}
_TABULATED = {
    **_POSTERIOR,
    "n_neighbors_": may(count("neighbors", most=1 << 24)),
    "class_size_": may(count()),
    "n_voters_": may(count("voters", most=1 << 24)),
    "n_cases_": may(count()),
}
_COUNTS_BY_CLASS = {
    **_POSTERIOR,
    "counts_": may(sparse_matrix("classes", "classes")),
    "base_": may(floats("classes")),
    "extra_": may(sparse_matrix("classes", "classes")),
}
# Rows are numbered as they are held; those of weight 0 are not, and ``given`` counts both.
_HOLDS_ROWS = {
    "n_features_in_": count(),
    "feature_names_in_": values("_"),
    "ids_": NONE | values("given"),
    "classes_": values("classes"),
    "labels_": ints("given", below="classes"),
    "_held": NONE | ints("rows", below="given"),
    "_aside": NONE | numbers("_ _"),
    "_weights": _WEIGHTS,
    "_priors": NONE | of("Priors", "classes"),
    "_records": NONE | of("Records"),
    "_seed": INT,
    "_order": NONE | ints("rows", below="rows"),
    "_members": MEMBERS,
    "n_neighbors_": count(at_most="rows"),
    "choices_": list_of(of("CandidateScore")),
}
_AROUND_CLASSIFIER = {
    "estimator": NONE | MODEL,
    "estimator_": NONE | MODEL,
    "classes_": values("classes"),
    "n_calibration_": count(),
    "n_features_in_": count(),
    "feature_names_in_": values("_"),
}
_LEARNED_MAP = {
    "n_features_in_": count("columns"),
    "feature_names_in_": values("_"),
    "components_": floats("_ columns"),
    "mean_": floats("columns"),
    "n_iter_": count(),
    "loss_curve_": floats("_"),
}
_KEYWORDS = {
    "n_features_in_": count("columns"),
    "words_": values("words"),
    "_keywords": sparse_matrix("rows", "words"),
}
_SIGMOIDS = {"usual": floats("votes"), "weights": floats("_")}
_ORDERING = {
    "n_features_in_": count("columns"),
    "_index": of("JointIndex", "rows columns"),
    "weights_": dict_of(TEXT, FLOAT),
}

# ------------------------------------------------------------------ the table

SAVABLE: dict[str, Savable] = {
    # distances
    **{
        name: _class(f"distances.{module}:{name}")
        for module, names in {
            "vectors": """Euclidean SquaredEuclidean Manhattan Chebyshev Cosine Correlation Canberra BrayCurtis Hamming
                Jaccard""",
            "histograms": "ChiSquare Hellinger Intersection JensenShannon",
            "functions": "PrecomputedDistance",
        }.items()
        for name in names.split()
    },
    "Minkowski": _class("distances.vectors:Minkowski", p=FLOAT),
    "TangentDistance": _class("distances.images:TangentDistance", shape=PLAIN, sides=TEXT, sigma=FLOAT),
    "ShapeContextDistance": _class("distances.images:ShapeContextDistance", shape=PLAIN, n_points=count(most=1 << 12)),
    "Mahalanobis": _class("distances.vectors:Mahalanobis", L=floats("_ columns")),
    "KullbackLeibler": _class("distances.histograms:KullbackLeibler", smoothing=FLOAT),
    "ScaledDistance": _class("distances.scaled:ScaledDistance", distance=of(DISTANCES), factor=FLOAT),
    # searches
    "ExactSearch": _class("search.exact:ExactSearch", metric=METRIC, products=TEXT, **_ROWS),
    "TreeSearch": _class("search.trees:TreeSearch", metric=METRIC, kind=TEXT, leaf_size=INT, **_ROWS),
    "ApproximateSearch": _class(
        "search.approximate:ApproximateSearch",
        metric=METRIC,
        kind=TEXT,
        recall=FLOAT,
        random_state=INT,
        checked_share=FLOAT,
        background=BOOL,
        **_ROWS,
    ),
    "GpuSearch": _class("search.gpu.gpu_search:GpuSearch", metric=METRIC, device=TEXT, products=TEXT, **_ROWS),
    "JointSearch": _class("neighbors.joint.joint_search:JointSearch", distance=of("JointDistance", "rows columns")),
    "Choice": _class("search.choose:Choice", search=of(SEARCHES, "rows columns"), name=TEXT, why=TEXT),
    # neighbors
    "NeighborIndex": _class(
        "neighbors.index:NeighborIndex",
        metric=METRIC,
        search=SEARCH,
        recall=PLAIN,
        metric_params=PLAIN,
        n_jobs=JOBS,
        chosen_=may(of("Choice", "rows columns")),
        search_=may(of(SEARCHES, "rows columns")),
    ),
    "InnerProductIndex": _class(
        "neighbors.inner_product:InnerProductIndex",
        search=SEARCH,
        n_jobs=JOBS,
        index_=may(of("NeighborIndex", "rows")),
        _rows=may(floats("rows _")),
        _longest=may(FLOAT),
    ),
    "LabeledNeighbors": _class(
        "neighbors.by_class.labeled:LabeledNeighbors",
        search=of(SEARCHES, "rows columns"),
        labels=LABELS,
        n_classes=count("classes"),
        n_jobs=JOBS,
    ),
    "NeighborTable": _class(
        "neighbors.table:NeighborTable",
        indices=ints("lines neighbors", below="rows", least=-1),
        distances=floats("lines neighbors"),
        classes=NONE | of("NearestClasses", "lines classes"),
        further=tuple_of(of("NearestClasses", "lines classes")),
        said=NONE | floats("lines classes models"),
    ),
    # Distances of the nearest members are there where members are asked for, means of the 16 nearest classes.
    "NearestClasses": Savable(
        "nearsay.neighbors.class_order:NearestClasses",
        {
            "numbers": ints("lines listed", below="classes", least=-1),
            "nearest": floats("lines told"),
            "means": floats("lines near members"),
            "beyond": floats("lines"),
            "members": members_of("members"),
        },
        rule=lambda size: (
            size["told"] == (size["listed"] if size["members"] else 0) and size["near"] == min(size["listed"], 16)
        ),
    ),
    "ClassTable": _class(
        "neighbors.by_class.class_table:ClassTable",
        indices=ints("lines classes members", below="rows", least=-1),
        distances=floats("lines classes members"),
    ),
    "FeatureSpace": _class(
        "neighbors.joint.feature_spaces:FeatureSpace",
        name=TEXT,
        columns=SLICE | ints("_", below="columns"),
        distance=of(DISTANCES),
    ),
    "HeldSpaces": _class(
        "neighbors.joint.feature_spaces:HeldSpaces",
        rows=numbers("rows columns"),
        spaces=list_of(of("FeatureSpace", "columns"), "spaces"),
        _farthest=dict_of(count(), FLOAT),
        scales=may(floats("spaces")),
    ),
    "JointDistance": _class(
        "neighbors.joint.joint_search:JointDistance",
        held=of("HeldSpaces", "rows columns spaces"),
        factors=floats("spaces"),
    ),
    "JointIndex": _class(
        "neighbors.joint.joint_search:JointIndex",
        held=of("HeldSpaces", "rows columns spaces"),
        factors=floats("spaces"),
    ),
    # taxonomies
    "Taxonomy": _class(
        "taxonomy.taxonomy:Taxonomy",
        nodes=tuple_of(KEY, "nodes"),
        parents=tuple_of(tuple_of(count()), "nodes"),
        prior=NONE | floats("_"),
        words=dict_of(KEY, TEXT),
    ),
    # posteriors
    "Proportional": _class("posterior.methods.proportional:Proportional", **_POSTERIOR, smoothing=PLAIN),
    "Weighted": _class(
        "posterior.methods.weighted:Weighted",
        **_POSTERIOR,
        by=TEXT,
        right_=may(numbers("_")),
        weights_=may(floats("_")),
    ),
    "Pooled": _class(
        "posterior.methods.pooled:Pooled",
        **_POSTERIOR,
        members=PLAIN,
        of_groups=may(BOOL),
        _among=may(NONE | ints("_", below="rows")),
        _far_by_size=may(floats("classes")),
        members_=may(ints("numbers")),
        floors_=may(list_of(FLOAT, "views")),
        gaps_=may(floats("views numbers")),
        model_failure_=may(FLOAT),
        weights_=may(floats("views numbers")),
        model_weights_=may(floats("models")),
        size_weight_=may(FLOAT),
    ),
    "Rank": _class(
        "posterior.methods.rank:Rank",
        **_TABULATED,
        counts_=may(numbers("1 classes+1")),
        reading_=may(floats("1 classes+1")),
        past_reading_=may(floats("1 classes+1")),
    ),
    "RankVotesplit": _class(
        "posterior.methods.rank:RankVotesplit",
        **_TABULATED,
        counts_=may(numbers("voters classes+1")),
        reading_=may(floats("neighbors+1 classes+1")),
        past_reading_=may(floats("voters classes+1")),
    ),
    "DistVotesplit": _class(
        "posterior.methods.dist_votesplit:DistVotesplit",
        **_TABULATED,
        low_=may(FINITE),
        width_=may(FINITE),
        counts_=may(numbers("2 voters 20")),
        reading_=may(floats("neighbors+1 20")),
        past_reading_=may(floats("voters 20")),
    ),
    "Confmat": _class(
        "posterior.methods.confusion:Confmat",
        **_TABULATED,
        normalize=PLAIN,
        counts_=may(sparse_matrix("classes", "classes")),
        right_=may(floats("classes")),
    ),
    "ConfmatRank": _class(
        "posterior.methods.confusion:ConfmatRank", **_COUNTS_BY_CLASS, ranks_=may(of("Rank", "rows classes"))
    ),
    "ConfmatRankVotesplit": _class(
        "posterior.methods.confusion:ConfmatRankVotesplit",
        **_COUNTS_BY_CLASS,
        ranks_=may(of("RankVotesplit", "rows classes")),
    ),
    "RowWeights": _class("posterior.row_weights:RowWeights", values=floats("rows"), n_rows=count(), total=FLOAT),
    "Priors": _class("posterior.priors:Priors", log_priors=floats("classes"), log_frequencies=floats("classes")),
    "Records": _class("posterior.evidence.records:Records", angles=floats("cases"), sums=floats("4 cases+1")),
    "CandidateScore": _class(
        "posterior.choice.model_choice:CandidateScore",
        posterior=TEXT,
        n_neighbors=NONE | count(),
        distances=tuple_of(TEXT),
        groups=tuple_of(TEXT),
        log_posterior=FLOAT,
        accuracy=FLOAT,
        beside=BOOL,
        seconds=FLOAT,
    ),
    # views of the rows
    "Look": _class(
        "posterior.views.row_transforms:RowTransform",
        name=TEXT,
        power=NONE | FLOAT,
        pull=FLOAT,
        large_margin=BOOL,
        unit=BOOL,
        distance=TEXT,
    ),
    "LinearMap": _class(
        "posterior.views.row_transforms:LinearMap",
        center=floats("taken"),
        matrix=floats("taken|taken between"),
        unit=BOOL,
        columns=NONE | ints("taken", below="columns"),
        further=NONE | floats("between _"),
    ),
    "LearnedLooks": _class(
        "posterior.views.row_transforms:LearnedTransforms",
        looks=list_of(of("Look"), "looks"),
        X=numbers("rows columns"),
        labels=ints("rows"),
        order=ints("_", below="rows"),
        fold=ints("rows", below="folds"),
        _whole=NONE | list_of(of("LinearMap", "columns"), "looks"),
        _without=dict_of(count(), list_of(of("LinearMap", "columns"), "looks")),
    ),
    "View": _class(
        "posterior.views.feature_group:View",
        group=TEXT,
        columns=NONE | SLICE | ints("_"),
        distance=of(DISTANCES),
        search=SEARCH,
        forgiving=BOOL,
        look=NONE | of("Look"),
        looks=NONE | of("LearnedLooks", "rows:here"),
        taken=NONE | ints("_"),
        n_jobs=JOBS,
        unseen=may(BOOL),
        n_rows=count("rows"),
        rows_=ints("here", below="rows"),
        index_=of("NeighborIndex", "rows:here"),
        labeled_=of("LabeledNeighbors", "rows:here classes"),
        past_=of("PastCases", "rows:here classes"),
    ),
    "Views": _class(
        "posterior.views.views:Views",
        views=list_of(of("View", "rows classes")),
        models=list_of(of("ModelBeside", "rows classes")),
    ),
    "PastCases": _class(
        "posterior.past_cases:PastCases",
        asked=of("LabeledNeighbors Views", "rows classes"),
        seed=INT,
        n_views=count(),
        max_past_cases=NONE | count(),
        order=NONE | ints("rows", below="rows"),
        _kept=NONE | pair_of(of("NeighborTable", "rows classes lines"), NONE | ints("lines", below="rows")),
        _sampled_table=may(NONE | of("NeighborTable", "rows classes")),
    ),
    "ModelBeside": _class(
        "posterior.views.model_beside:ModelBeside",
        model=of(f"{CLASSIFIERS} {SKLEARN_MODELS}"),
        classes=values("classes"),
        name=NONE | TEXT,
        past_=floats("rows classes"),
        model_=of(f"{CLASSIFIERS} {SKLEARN_MODELS}"),
    ),
    "GaussianClasses": _estimator(
        "posterior.views.gaussian_classes:GaussianClasses",
        "scores",
        classes_=ints("classes"),
        _standardized=of("LinearMap"),
        _whitening=floats("columns directions"),
        _factors=floats("directions _"),
        _offsets=floats("_"),
        _half_log_det=floats("classes"),
        _quantiles=of("ColumnQuantiles", "columns"),
    ),
    "ColumnQuantiles": _class(
        "posterior.views.gaussian_classes:ColumnQuantiles",
        values=floats("values"),
        shares=floats("values"),
        starts=starts("columns+1", of="values"),
    ),
    "Novelty": _class(
        "posterior.evidence.novelty:Novelty",
        past=may(of("PastCases", "rows classes")),
        k=count(),
        _past_reach=may(floats("_ _")),
        _nearly_equal=may(FLOAT),
        _usual=may(NONE | of("UsualSigns")),
        _known_reach=may(floats("rows")),
        twin_share=may(FLOAT),
    ),
    "UsualSigns": _class(
        "posterior.evidence.novelty:UsualSigns",
        center=floats("3"),
        scale=floats("3"),
        scores=floats("cases"),
        labels=ints("cases"),
    ),
    # classifiers
    "NeighborClassifier": _estimator(
        "posterior.classifier:NeighborClassifier",
        """n_neighbors tie_break model_failure smoothing criterion max_past_cases priors random_state
        metric_params""",
        posterior=PLAIN | of(POSTERIORS),
        metric=METRIC,
        search=SEARCH,
        beside=NONE | of(SKLEARN_MODELS),
        n_jobs=JOBS,
        **_HOLDS_ROWS,
        _rows_by_k=dict_of(INT, ints("_", below="rows")),
        _views=of("Views", "rows classes"),
        index_=of("NeighborIndex", "rows"),
        _past=of("PastCases", "rows classes"),
        _posterior=of(POSTERIORS, "rows classes"),
        posterior_=of(POSTERIORS, "rows classes"),
        _novelty=of("Novelty", "rows classes"),
        _nested=list_of(pair_of(ints("_", below="rows"), floats("_ classes"))),
        _taught_by=NONE | pair_of(numbers("rows _"), NONE | floats("rows classes")),
        k_curve_=pair_of(ints("ks"), floats("ks"), floats("ks")),
    ),
    "FusedClassifier": _estimator(
        "posterior.fused:FusedClassifier",
        "exponents priors",
        feature_groups=plain_with(of(DISTANCES)),
        base=NONE | of("NeighborClassifier"),
        **_HOLDS_ROWS,
        views_=list_of(of("View", "rows classes"), "views"),
        _rows_judged=NONE | ints("_", below="rows"),
        posterior_=of("Fusion", "rows classes views"),
        exponents_=floats("views"),
        _nested=list_of(pair_of(ints("_", below="rows"), floats("_ classes"))),
        _taught_by=NONE | numbers("rows _"),
    ),
    "Fusion": _class(
        "posterior.methods.fusion:Fusion",
        posterior=of(POSTERIORS),
        exponents=PLAIN,
        n_classes_=count("classes"),
        _shown=bools("views classes"),
        _labels=LABELS,
        _rows=ints("cases", below="rows"),
        exponents_=floats("views"),
        _exponents_left_out=floats("cases views"),
        _joint=NONE | of("Pooled", "rows classes"),
        posteriors_=list_of(of(POSTERIORS, "rows classes")),
    ),
    "FoldModels": _estimator(
        "decision.calibration:FoldModels",
        "",
        estimators=list_of(of(f"{CLASSIFIERS} {SKLEARN_MODELS}")),
        estimators_=list_of(of(f"{CLASSIFIERS} {SKLEARN_MODELS}")),
        fitted_on_=list_of(ints("_")),
        classes_=values("classes"),
        n_features_in_=count(),
        feature_names_in_=values("_"),
    ),
    "HedgedClassifier": _estimator(
        "decision.hedged:HedgedClassifier",
        "accuracy confidence rule cv branches",
        taxonomy=TAXONOMY,
        **_AROUND_CLASSIFIER,
        taxonomy_=of("Taxonomy", "nodes"),
        _class_nodes=ints("classes", below="nodes"),
        _leaf_mass=sparse_matrix("classes", "leaves"),
        _names=values("nodes"),
        _branch_of_leaves=ints("leaves"),
        _rows_worth_one=count(),
        _ways=list_of(of("Way", "nodes")),
        settings_=floats("_"),
        _way=of("Way", "nodes"),
        _curve=of("AccuracyCurve"),
    ),
    "Way": _class(
        "decision.hedged:Way",
        estimator=NONE | MODEL,
        curve=of("AccuracyCurve"),
        by_branch=dict_of(KEY, of("AccuracyCurve")),
        past=NONE | of("PastAnswers", "nodes"),
    ),
    "AccuracyCurve": _class(
        "decision.envelope:AccuracyCurve",
        rule=TEXT,
        settings=floats("steps"),
        n_right=ints("steps"),
        gain=floats("steps"),
        n_rows=count(),
        most_information=FLOAT,
    ),
    "OperatingPoints": _class(
        "decision.envelope:OperatingPoints",
        rule=TEXT,
        starts=starts("cases+1", of="points"),
        settings=floats("points"),
        nodes=ints("points", below="nodes"),
    ),
    "PastAnswers": _class(
        "decision.records:PastAnswers",
        points=of("OperatingPoints", "nodes cases points"),
        p=floats("points"),
        right=bools("points"),
        branch=ints("cases"),
        root=INT,
    ),
    "ConformalClassifier": _estimator(
        "decision.conformal:ConformalClassifier",
        "coverage per_class conformity_score cv",
        **_AROUND_CLASSIFIER,
        _labels=ints("cases", below="classes"),
        _scores=floats("cases"),
        _unseen=bools("cases"),
        _n_unseen=count(most=1 << 24),
        unseen_class_rate_=FLOAT,
        thresholds_=floats("classes"),
    ),
    "Evidence": _class(
        "posterior.evidence.evidence:Evidence",
        label=KEY,
        probability=FLOAT,
        probabilities=dict_of(KEY, FLOAT),
        votes=dict_of(KEY, FLOAT),
        neighbors=list_of(INT),
        distances=list_of(FLOAT),
        labels=list_of(KEY),
        novelty=FLOAT,
        record=PLAIN,
        ids=PLAIN,
        twin=NONE | INT,
    ),
    # learned metrics
    "ITML": _estimator(
        "learn.itml:ITML",
        "gamma n_constraints n_neighbors prior bounds max_iter tol random_state verbose",
        taxonomy=TAXONOMY,
        **_LEARNED_MAP,
        bounds_=pair_of(FLOAT, FLOAT),
    ),
    "LMNN": _estimator(
        "learn.lmnn.lmnn:LMNN",
        "n_neighbors push margin max_iter tol n_components shrinkage verbose",
        taxonomy=TAXONOMY,
        **_LEARNED_MAP,
    ),
    "BoostMetric": _estimator(
        "learn.boost_metric:BoostMetric",
        "n_triplets near start max_iter trace_penalty tol validation_fraction random_state verbose",
        taxonomy=TAXONOMY,
        **_LEARNED_MAP,
        validation_curve_=dict_of(INT, FLOAT),
        n_rounds_=count(),
    ),
    "WithinClassWhitening": _estimator(
        "learn.whitening:WithinClassWhitening", "power pull shrinkage", **_LEARNED_MAP, shrinkage_=FLOAT
    ),
    "KeywordProjection": _estimator(
        "learn.keyword_projection:KeywordProjection",
        "n_components shrinkage",
        **_LEARNED_MAP,
        correlations_=floats("_"),
    ),
    "RankBoostNeighbors": _estimator(
        "learn.rank_boost:RankBoostNeighbors",
        "max_iter n_pairs depth top weighting rest joint random_state",
        features=METRIC,
        n_features_in_=count("columns"),
        _held=of("HeldSpaces", "rows columns"),
        space_names_=tuple_of(TEXT, "rankings"),
        n_preferences_=count(),
        boosted_=of("Boosted", "rankings rows"),
    ),
    "Boosted": _class(
        "learn.rank_boost:Boosted",
        spaces=ints("rounds", below="rankings"),
        thresholds=ints("rounds", below="rows"),
        alphas=floats("rounds"),
        errors=floats("rounds"),
        bounds=floats("rounds"),
    ),
    # keywords
    "KeywordAnnotator": _estimator(
        "annotate.annotator:KeywordAnnotator",
        "n_neighbors n_keywords min_probability order recall_weight cv words",
        neighbors=plain_with(of(f"{ANNOTATORS} {SKLEARN_MODELS}")),
        features=METRIC,
        relevance=plain_with(of("Relevance")),
        **_KEYWORDS,
        ids_=NONE | values("rows"),
        _named=BOOL,
        _sparse=BOOL,
        _columns=NONE | of("KeywordColumns", "columns"),
        choices_=NONE | of("ScorerChoices"),
        _scorers=list_of(of("KeywordScorer")),
        _finder=NONE | of("KeywordScorer"),
        calibration_=of("KeywordCalibration", "words"),
        held_out_rows_=ints("cases", below="rows"),
        held_out_proba_=floats("cases words"),
        worth_=NONE | of("Worth", "words"),
    ),
    "KeywordScorer": _class(
        "annotate.scorers.keyword_scorers:KeywordScorer",
        estimator=of(f"{ANNOTATORS} {SKLEARN_MODELS}"),
        relevances=tuple_of(TEXT | of("Relevance")),
        n_neighbors=count(),
        sees_columns=BOOL,
        _keywords=may(NONE | sparse_matrix("_", "_")),
    ),
    "KeywordCalibration": _class(
        "annotate.calibration:KeywordCalibration",
        **_SIGMOIDS,
        log_odds=floats("words"),
        slopes=floats("words"),
        shifts=floats("words"),
    ),
    "Relevance": _class(
        "annotate.scorers.relevance:Relevance", kind=TEXT, decay=FLOAT, bandwidth=NONE | FLOAT, sharpness=FLOAT
    ),
    "ScorerChoice": _class("annotate.scorer_choice:ScorerChoice", scorer=TEXT, alone=FLOAT, without=NONE | FLOAT),
    "ScorerChoices": _class(
        "annotate.scorer_choice:ScorerChoices", _tried=list_of(of("ScorerChoice")), together=FLOAT, n_cases=count()
    ),
    "Worth": _class(
        "annotate.word_selection:Worth",
        precision=floats("words"),
        given=floats("words"),
        had=floats("words"),
        recall_weight=FLOAT,
    ),
    "SomeColumns": _estimator("annotate.auto_scorers:SomeColumns", "", ranges=list_of(SLICE)),
    "KeywordColumns": _estimator(
        "annotate.keyword_columns:KeywordColumns",
        "",
        features=METRIC,
        n_features_in_=count("columns"),
        _vectors=list_of(of("FeatureSpace", "columns")),
        others_=dict_of(TEXT, of("LandmarkFeatures")),
        _views=dict_of(TEXT, tuple_of(of("ScaledColumnsOfSpace") | FLOAT)),
        views_=dict_of(TEXT, TEXT),
        _mean=NONE | floats("_"),
        _directions=NONE | floats("_ _"),
        _near=dict_of(TEXT, of("LandmarkFeatures")),
        blocks_=dict_of(TEXT, SLICE),
    ),
    "ScaledColumnsOfSpace": _class("annotate.keyword_columns:ColumnView", name=TEXT, divisors=floats("_")),
    "LandmarkFeatures": _estimator(
        "annotate.scorers.landmarks:LandmarkFeatures",
        "weights n_landmarks n_components sharpness",
        features=METRIC,
        n_features_in_=count("columns"),
        landmarks_=of("JointNeighbors", "columns"),
        mean_distance_=FLOAT,
        _components=floats("_ _"),
    ),
    "JointNeighbors": _estimator(
        "annotate.scorers.joint_neighbors:JointNeighbors", "weights", features=METRIC, **_ORDERING
    ),
    "LassoNeighbors": _estimator(
        "annotate.scorers.lasso_neighbors:LassoNeighbors",
        "penalty n_pairs min_shared random_state",
        features=METRIC,
        **_ORDERING,
    ),
    "GroupLassoNeighbors": _estimator(
        "annotate.scorers.lasso_neighbors:GroupLassoNeighbors",
        "penalty n_pairs min_shared random_state",
        features=METRIC,
        **{**_ORDERING, "_index": of("JointIndex", "rows")},
        _columns=ints("_", below="columns"),
        column_weights_=floats("columns"),
    ),
    "TransformedNeighbors": _estimator(
        "annotate.scorers.transformed_neighbors:TransformedNeighbors",
        "",
        transformer=TRANSFORMER,
        metric=METRIC,
        n_features_in_=count(),
        transformer_=TRANSFORMER,
        index_=of("NeighborIndex", "rows"),
    ),
    "TwoPassNeighbors": _estimator(
        "annotate.scorers.two_pass_neighbors:TwoPassNeighbors",
        "per_word",
        base=NONE | of(ORDERINGS),
        base_=of(ORDERINGS, "rows"),
        n_features_in_=count("columns"),
        _keywords=sparse_matrix("rows", "words"),
    ),
    "KeywordRegression": _estimator(
        "annotate.scorers.regression:KeywordRegression",
        "shrinkage",
        transformer=TRANSFORMER,
        n_features_in_=count("columns"),
        words_=values("words"),
        transformer_=TRANSFORMER,
        _share=floats("words"),
        shrinkage_=FLOAT,
        _mean=floats("_"),
        _weights=floats("_ words"),
    ),
    "MLkNN": _estimator(
        "annotate.scorers.ml_knn:MLkNN",
        "n_neighbors smoothing",
        base=NONE | of(ORDERINGS),
        base_=of(ORDERINGS, "rows"),
        **_KEYWORDS,
        _index=NONE | of("NeighborIndex", "rows"),
        record_=of("VoteRecord", "words"),
        _proba=floats("words _"),
    ),
    "VoteRecord": _class("annotate.scorers.ml_knn:VoteRecord", has=ints("words votes"), lacks=ints("words votes")),
    "SparseCodingAnnotator": _estimator(
        "annotate.scorers.sparse_coding:SparseCodingAnnotator",
        "n_components n_dimensions n_mixed penalty random_state",
        features=METRIC,
        **_KEYWORDS,
        _spaces=list_of(of("FeatureSpace", "columns")),
        _means=floats("_"),
        _lengths=list_of(FLOAT),
        _reduced=of("PCA"),
        _map=floats("_ _"),
        _rows=floats("rows _"),
    ),
    # what a collection has learned
    "Learned": _class(
        "collection.state.learned:Learned",
        sights=list_of(of("Sight")),
        n_neighbors=count(most=1 << 20),
        members=MEMBERS,
        n_rows=count(),
        version=count(),
        asked=pair_of(PLAIN, PLAIN),
        fold=ints("_", least=-1),
        records=of("Records"),
        novelty=of("Novelty"),
        posterior=of(POSTERIORS),
        posterior_name=TEXT,
        choices=list_of(TEXT),
        hedge=NONE | of("HedgedClassifier"),
        keywords=may(NONE | of("LearnedKeywords")),
    ),
    "LearnedKeywords": _class(
        "collection.state.learned_keywords:LearnedKeywords",
        sight=of("Sight"),
        fold=ints("_", least=-1),
        odds=of("WordOdds"),
        n_neighbors=count(most=1 << 20),
    ),
    "WordOdds": _class(
        "collection.state.word_odds:WordOdds",
        **_SIGMOIDS,
        words=texts("words"),
        log_odds=floats("words+1"),
        slopes=floats("words+1"),
        shifts=floats("words+1"),
    ),
    "Sight": _class(
        "collection.state.live_views:LiveTransform",
        name=TEXT,
        metric=TEXT,
        whole=NONE | of("LinearMap OneScale ScaledColumns"),
        without=tuple_of(of("LinearMap")),
        columns=NONE | pair_of(count(), count()),
    ),
    "OneScale": _class("collection.state.learned_keywords:OneScale", center=floats("columns"), scale=floats("columns")),
    "ScaledColumns": _class("collection.state.feature_groups:ScaledColumns", scales=floats("columns")),
    # scikit-learn: models that are made of arrays. None of them holds a function, a path or compiled parts.
    "LogisticRegression": _of_sklearn("linear_model:LogisticRegression", classes_=values("classes")),
    "RidgeClassifier": _of_sklearn("linear_model:RidgeClassifier", _label_binarizer=of("LabelBinarizer")),
    "LinearDiscriminantAnalysis": _of_sklearn(
        "discriminant_analysis:LinearDiscriminantAnalysis", covariance_estimator=NONE, classes_=values("classes")
    ),
    "QuadraticDiscriminantAnalysis": _of_sklearn(
        "discriminant_analysis:QuadraticDiscriminantAnalysis", covariance_estimator=NONE, classes_=values("classes")
    ),
    **{
        name: _of_sklearn(f"naive_bayes:{name}", classes_=values("classes"))
        for name in ("GaussianNB", "MultinomialNB", "BernoulliNB", "ComplementNB")
    },
    **{
        name: _of_sklearn(f"preprocessing:{name}")
        for name in ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Normalizer", "LabelBinarizer")
    },
    **{name: _of_sklearn(f"decomposition:{name}") for name in ("PCA", "TruncatedSVD")},
    # Its memory would be a folder of pickles.
    "Pipeline": Savable(
        "sklearn.pipeline:Pipeline",
        {
            "steps": list_of(pair_of(TEXT, TEXT | NONE | STEP)),
            "memory": NONE,
            "verbose": BOOL,
            "transform_input": may(PLAIN),
        },
    ),
}
