"""The table of classes that a saved file may hold, with the kind of every field (``field_kinds.py``).

A file names a class by its name only, so classes may move between modules. The content of a file is checked against
this table before a class is imported, and so is what is about to be saved: a new attribute of a fitted estimator must
be declared here, or saving it is an error that names it. No class here opens a file or a connection when it is made.

A distance or posterior with a name need not be declared (``saved_by_name.py``).
"""

from __future__ import annotations

from nearsay.data.saved.field_kinds import (
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
from nearsay.data.saved.saved_fields import Kind, Savable


def _class(where: str, **fields: Kind) -> Savable:
    """A class of nearsay, with all of its fields."""
    return Savable(f"nearsay.{where}", fields)


def _estimator(where: str, settings: str, /, **fields: Kind) -> Savable:
    """An estimator: ``settings`` are plain data; fitted fields (``name_``, ``_name``) may be missing."""
    fitted = {name: may(kind) if name.startswith("_") or name.endswith("_") else kind for name, kind in fields.items()}
    return Savable(f"nearsay.{where}", {**dict.fromkeys(settings.split(), PLAIN), **fitted})


def _of_sklearn(where: str, **fields: Kind) -> Savable:
    """A model of scikit-learn: fields that are not named hold plain data."""
    return Savable(f"sklearn.{where}", {name: may(kind) for name, kind in fields.items()}, others=PLAIN)


# Classes whose rows lie in other files: they are never saved, and the error says why.
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
    ShapeContextDistance PrecomputedDistance ScaledDistance NamedDistance"""
SEARCHES = "ExactSearch TreeSearch ApproximateSearch GpuSearch JointSearch"
POSTERIORS = """Proportional Weighted Pooled Rank RankVotesplit DistVotesplit Confmat ConfmatRank
    ConfmatRankVotesplit NamedPosterior"""
SKLEARN_MODELS = """LogisticRegression LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis GaussianNB MultinomialNB
    BernoulliNB ComplementNB RidgeClassifier Pipeline"""
SKLEARN_TRANSFORMERS = """StandardScaler MinMaxScaler MaxAbsScaler RobustScaler Normalizer PCA TruncatedSVD
    LabelBinarizer Pipeline"""
CLASSIFIERS = """NeighborClassifier FusedClassifier HedgedClassifier ConformalClassifier FoldModels GaussianClasses
    LinearClasses BoostedClasses"""
METRICS = """ITML LMNN BoostMetric WithinClassWhitening KeywordProjection LandmarkFeatures KeywordColumns SomeColumns
    TableEncoder"""
ORDERINGS = "JointNeighbors RankBoostNeighbors TransformedNeighbors TwoPassNeighbors"
ANNOTATORS = f"{ORDERINGS} KeywordRegression KeywordForest MLkNN KeywordAnnotator"

METRIC = plain_with(of(DISTANCES))
SEARCH = PLAIN | of(SEARCHES)
POSTERIOR = PLAIN | of(f"Auto {POSTERIORS}")
MODEL = of(f"{CLASSIFIERS} {SKLEARN_MODELS} {METRICS} {SKLEARN_TRANSFORMERS}", "classes")
STEP = of(f"{METRICS} {CLASSIFIERS} {SKLEARN_MODELS} {SKLEARN_TRANSFORMERS}")
TRANSFORMER = NONE | of(f"{METRICS} {SKLEARN_TRANSFORMERS}")
TAXONOMY = NONE | of("Taxonomy", "nodes")
ONE_BESIDE = of(SKLEARN_MODELS) | pair_of(TEXT, of(SKLEARN_MODELS))
BESIDE = NONE | ONE_BESIDE | list_of(ONE_BESIDE)
LABELS = ints("rows", below="classes")
MEMBERS = NONE | members_of()

# ------------------------------------------------------------------ what several classes have in common

# A search is saved as its settings and rows, and built again from them: structures of other libraries are never read.
_ROWS = {"chunks": may(chunks("rows", "columns")), "removed": may(NONE | bools("rows"))}
_WEIGHTS = NONE | of("RowWeights", "rows")
_POSTERIOR = {
    "model_failure": FLOAT,
    "max_past_cases": may(NONE | count()),
    "weights": may(_WEIGHTS),
    "row_groups": may(NONE | ints("_")),
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
_TREES = {
    "_labels": LABELS, "_standardized": of("LinearMap"), "_roots": ints("trees", below="nodes"),
    "_feature": ints("nodes"), "_threshold": floats("nodes"), "_right": ints("nodes", below="nodes"),
    "_starts": starts("nodes+1", of="members"), "_members": ints("members", below="rows"), "_counts": ints("members"),
}  # fmt: skip
_OWN_MODEL = of("GaussianClasses LinearClasses BoostedClasses ForestClasses")
_ANSWERS = {"n_features_in_": count(), "feature_names_in_": values("_"), "rows_": of("GivenRows", "rows classes")}
_FITTED = {
    "classes": values("classes"),
    "labels": LABELS,
    "n_neighbors": count(at_most="rows"),
    "members": MEMBERS,
    "tie_break": TEXT,
    "seed": INT,
    "weights": _WEIGHTS,
    "priors": NONE | of("Priors", "classes"),
    "order": NONE | ints("_", below="rows"),
    "rows_by_k": dict_of(INT, ints("_", below="rows")),
    "nested": NONE | of("NestedFits", "rows classes"),
    "k_curve": NONE | pair_of(ints("ks"), floats("ks"), floats("ks")),
    "choices": NONE | list_of(of("CandidateScore")),
    "summary": NONE | of("PoolSummary"),
    "records": may(of("Records")),
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
_KEYWORDS = {"n_features_in_": count("columns"), "words_": values("words"), "_keywords": sparse_matrix("rows", "words")}
_SIGMOIDS = {"usual": floats("votes"), "weights": floats("_")}
_ORDERING = {
    "n_features_in_": count("columns"),
    "_index": of("JointIndex", "rows columns"),
    "weights_": dict_of(TEXT, FLOAT),
}

# ------------------------------------------------------------------ the table

# fmt: off
CLASSES: tuple[Savable, ...] = (
    # distances
    *(
        _class(f"distances.{module}:{name}")
        for module, names in {
            "vectors": """Euclidean SquaredEuclidean Manhattan Chebyshev Cosine Correlation Canberra BrayCurtis Hamming
                Jaccard""",
            "histograms": "ChiSquare Hellinger Intersection JensenShannon",
            "functions": "PrecomputedDistance",
        }.items()
        for name in names.split()
    ),
    _class("distances.vectors:Minkowski", p=FLOAT),
    _class("distances.images:TangentDistance", shape=PLAIN, sides=TEXT, sigma=FLOAT),
    _class("distances.images:ShapeContextDistance", shape=PLAIN,
        n_points=count(most=1 << 12)),
    _class("distances.mahalanobis:Mahalanobis", L=floats("_ columns")),
    _class("distances.histograms:KullbackLeibler", smoothing=FLOAT),
    Savable("nearsay.distances.named:NamedDistance", {"name": TEXT}, others=PLAIN),
    _class("distances.scaled:ScaledDistance", distance=of(DISTANCES), factor=FLOAT),
    # searches
    _class("search.exact:ExactSearch", metric=METRIC, products=TEXT, **_ROWS),
    _class("search.trees:TreeSearch", metric=METRIC, kind=TEXT, leaf_size=INT, **_ROWS),
    _class("search.approximate:ApproximateSearch", metric=METRIC, kind=TEXT, recall=FLOAT,
        random_state=INT, checked_share=FLOAT, background=BOOL, **_ROWS),
    _class("search.gpu.gpu_search:GpuSearch", metric=METRIC, device=TEXT, products=TEXT, **_ROWS),
    _class("neighbors.joint.joint_search:JointSearch", distance=of("JointDistance", "rows columns")),
    _class("search.choose:Choice", search=of(SEARCHES, "rows columns"), name=TEXT, why=TEXT),
    # neighbors
    _class("neighbors.index:NeighborIndex", metric=METRIC, search=SEARCH, recall=PLAIN,
        metric_params=PLAIN, n_jobs=JOBS, chosen_=may(of("Choice", "rows columns")),
        search_=may(of(SEARCHES, "rows columns"))),
    _class("neighbors.inner_product:InnerProductIndex", search=SEARCH, n_jobs=JOBS,
        index_=may(of("NeighborIndex", "rows")), _rows=may(floats("rows _")), _longest=may(FLOAT)),
    _class("neighbors.by_class.labeled:LabeledNeighbors", search=of(SEARCHES, "rows columns"),
        labels=LABELS, n_classes=count("classes"), n_jobs=JOBS, groups=NONE | ints("rows")),
    _class("neighbors.table:NeighborTable", indices=ints("lines neighbors", below="rows", least=-1),
        distances=floats("lines neighbors"), classes=NONE | of("NearestClasses", "lines classes"),
        further=tuple_of(of("NearestClasses", "lines classes")), model_log_p=NONE | floats("lines classes models"),
        candidates=may(NONE)),
    # Distances of the nearest members exist where members are requested, means for the 16 nearest classes.
    Savable(
        "nearsay.neighbors.class_order:NearestClasses",
        {
            "numbers": ints("lines listed", below="classes", least=-1),
            "nearest": floats("lines measured"),
            "means": floats("lines near members"),
            "beyond": floats("lines"),
            "members": members_of("members"),
        },
        rule=lambda size: (
            size["measured"] == (size["listed"] if size["members"] else 0) and size["near"] == min(size["listed"], 16)
        ),
    ),
    _class("neighbors.by_class.class_table:ClassTable",
        indices=ints("lines classes members", below="rows", least=-1), distances=floats("lines classes members")),
    _class("neighbors.joint.feature_spaces:FeatureSpace", name=TEXT,
        columns=SLICE | ints("_", below="columns"), distance=of(DISTANCES)),
    _class("neighbors.joint.feature_spaces:HeldSpaces", rows=numbers("rows columns"),
        spaces=list_of(of("FeatureSpace", "columns"), "spaces"), _farthest=dict_of(count(), FLOAT),
        scales=may(floats("spaces"))),
    _class("neighbors.joint.joint_search:JointDistance",
        held=of("HeldSpaces", "rows columns spaces"), factors=floats("spaces")),
    _class("neighbors.joint.joint_search:JointIndex", held=of("HeldSpaces", "rows columns spaces"),
        factors=floats("spaces")),
    # taxonomies
    _class("taxonomy.taxonomy:Taxonomy", nodes=tuple_of(KEY, "nodes"),
        parents=tuple_of(tuple_of(count()), "nodes"), prior=NONE | floats("_"), words=dict_of(KEY, TEXT)),
    # tables with words and gaps
    _class("encode.column_quantiles:ColumnQuantiles", values=floats("values"),
        shares=floats("values"), starts=starts("columns+1", of="values")),
    _class("encode.encoded_columns:NumberColumn", name=TEXT, center=FINITE, scale=FLOAT,
        quantiles=NONE | of("ColumnQuantiles"), marks_gaps=BOOL, is_date=BOOL),
    _class("encode.encoded_columns:WordColumn", name=TEXT, values=texts("values"), shares=floats("codes"),
        has_rare=BOOL, has_gaps=BOOL, height=FINITE),
    _class("encode.table_columns:TableColumns", names=list_of(TEXT, "columns"), kinds=list_of(TEXT, "columns"),
        cells=list_of(values("given"), "columns")),
    _estimator("encode.table_encoder:TableEncoder", "numbers min_rows max_values keep_ids", n_features_in_=count(),
        feature_names_in_=values("_"), kinds_=list_of(TEXT, "columns"), dropped_=dict_of(TEXT, TEXT),
        columns_=list_of(of("NumberColumn WordColumn"), "kept"), places_=ints("kept", below="columns"),
        n_gaps_=dict_of(TEXT, count())),
    _class("encode.encoded_table:EncodedTable", encoder=of("TableEncoder", "columns"),
        columns=of("TableColumns", "columns given"), names=NONE | values("_")),
    # posteriors
    _class("posterior.methods.named:Auto", criterion=TEXT, max_past_cases=NONE | count(), model_failure=FLOAT),
    Savable("nearsay.posterior.methods.named:NamedPosterior", {**_POSTERIOR, "model_failure": may(FLOAT), "name": TEXT},
        others=PLAIN),
    _class("posterior.methods.proportional:Proportional", **_POSTERIOR, smoothing=PLAIN),
    _class("posterior.methods.weighted:Weighted", **_POSTERIOR, by=TEXT, right_=may(numbers("_")),
        weights_=may(floats("_"))),
    _class("posterior.methods.pooled:Pooled", **_POSTERIOR, members=PLAIN, of_groups=may(BOOL),
        _among=may(NONE | ints("_", below="rows")), _far_by_size=may(floats("classes")), members_=may(ints("numbers")),
        floors_=may(list_of(FLOAT, "views")), gaps_=may(floats("views numbers")), model_failure_=may(FLOAT),
        weights_=may(floats("views numbers")), model_weights_=may(floats("models")), size_weight_=may(FLOAT),
        strictness_=may(FLOAT), of_table=may(BOOL)),
    _class("posterior.methods.rank:Rank", **_TABULATED, counts_=may(numbers("1 classes+1")),
        reading_=may(floats("1 classes+1")), past_reading_=may(floats("1 classes+1"))),
    _class("posterior.methods.rank:RankVotesplit", **_TABULATED, counts_=may(numbers("voters classes+1")),
        reading_=may(floats("neighbors+1 classes+1")), past_reading_=may(floats("voters classes+1"))),
    _class("posterior.methods.dist_votesplit:DistVotesplit", **_TABULATED, low_=may(FINITE), width_=may(FINITE),
        counts_=may(numbers("2 voters 20")), reading_=may(floats("neighbors+1 20")),
        past_reading_=may(floats("voters 20"))),
    _class("posterior.methods.confusion:Confmat", **_TABULATED, normalize=PLAIN, counts_=may(sparse_matrix("classes",
        "classes")), right_=may(floats("classes"))),
    _class("posterior.methods.confusion:ConfmatRank", **_COUNTS_BY_CLASS, ranks_=may(of("Rank", "rows classes"))),
    _class("posterior.methods.confusion:ConfmatRankVotesplit", **_COUNTS_BY_CLASS, ranks_=may(of("RankVotesplit",
        "rows classes"))),
    _class("posterior.row_weights:RowWeights", values=floats("rows"), n_rows=count(), total=FLOAT),
    _class("posterior.priors:Priors", log_priors=floats("classes"), log_frequencies=floats("classes")),
    _class("posterior.evidence.records:Records", angles=floats("cases"), sums=floats("4 cases+1")),
    _class("posterior.choice.choices:CandidateScore", posterior=TEXT, n_neighbors=NONE | count(),
        distances=tuple_of(TEXT), groups=tuple_of(TEXT), log_posterior=FLOAT, accuracy=FLOAT, seconds=FLOAT),
    _class("posterior.choice.choices:MemberSummary", name=TEXT, seconds=FLOAT, used=BOOL, without=NONE | FLOAT),
    _class("posterior.choice.choices:PoolSummary", members=tuple_of(of("MemberSummary")), log_loss=FLOAT,
        n_cases=count()),
    # views of the rows
    _class("posterior.views.row_transforms:RowTransform", name=TEXT, power=NONE | FLOAT, pull=FLOAT, large_margin=BOOL,
        unit=BOOL, distance=TEXT, blocks=tuple_of(pair_of(count(), count()))),
    _class("posterior.views.row_transforms:LinearMap", center=floats("taken"), matrix=floats("taken|taken between"),
        unit=BOOL, columns=NONE | ints("taken", below="columns"), further=NONE | floats("between _")),
    _class("posterior.views.row_transforms:LearnedTransforms", transforms=list_of(of("RowTransform"), "transforms"),
        X=numbers("rows columns"), labels=ints("rows"), order=ints("_", below="rows"), fold=ints("rows",
        below="folds"), _whole=NONE | list_of(of("LinearMap", "columns"), "transforms"), _without=dict_of(count(),
        list_of(of("LinearMap", "columns"), "transforms"))),
    _class("posterior.views.feature_group:View", group=TEXT, columns=NONE | SLICE | ints("_"), distance=of(DISTANCES),
        search=SEARCH, forgiving=BOOL, transform=NONE | of("RowTransform"), transforms=NONE | of("LearnedTransforms",
        "rows:here"), measured_columns=NONE | ints("_"), n_jobs=JOBS, maps_are_held_out=may(BOOL),
        groups_=may(NONE | ints("here")), n_rows=count("rows"), rows_=ints("here", below="rows"),
        index_=of("NeighborIndex", "rows:here"), labeled_=of("LabeledNeighbors", "rows:here classes"),
        past_=of("PastCases", "rows:here classes")),
    _class("posterior.views.views:Views", views=list_of(of("View", "rows classes")), models=list_of(
        of("ModelBeside ForestBeside", "rows classes"))),
    _class("posterior.views.joint_view:JointView", group=TEXT, columns=SLICE | ints("_"), distance=of(DISTANCES),
        search=SEARCH, forgiving=BOOL, transform=NONE, transforms=NONE, measured_columns=NONE, n_jobs=JOBS,
        n_rows=count("rows"), rows_=ints("here", below="rows"), views_=of("Views", "rows:here classes"),
        past_=of("PastCases", "rows:here classes")),
    _class("posterior.fused_model:GroupViews", views=list_of(of("View JointView", "rows classes"), "views")),
    _class("posterior.past_cases:PastCases", search=of("LabeledNeighbors Views", "rows classes"), seed=INT,
        n_views=count(), max_past_cases=NONE | count(), order=NONE | ints("_", below="rows"),
        _kept=NONE | pair_of(of("NeighborTable", "rows classes lines"), NONE | ints("lines", below="rows")),
        _sampled_table=may(NONE | of("NeighborTable", "rows classes"))),
    _class("posterior.views.model_beside:ModelBeside", model=of(f"{CLASSIFIERS} {SKLEARN_MODELS}"),
        classes=values("classes"), name=TEXT, past_=may(floats("rows classes")),
        model_=of(f"{CLASSIFIERS} {SKLEARN_MODELS}"), rows_=may(ints("_", below="rows")),
        copies_=may(list_of(NONE | _OWN_MODEL)), _rows=may(numbers("rows _")), _fold=may(ints("rows"))),
    _class("posterior.views.model_beside:ForestBeside", model=of("ForestClasses"), classes=values("classes"),
        name=TEXT, past_=may(floats("rows classes")), model_=of("ForestClasses"), rows_=ints("_", below="rows"),
        copies_=may(list_of(NONE)), _rows=may(numbers("rows _")), _left_out=may(ints("rows", below="rows", least=-1))),
    _estimator("posterior.views.linear_classes:LinearClasses", "ridge most_products", classes_=ints("classes"),
        _standardized=of("LinearMap"), _basis=floats("columns directions"), _weights=floats("_ classes"), ridge_=FLOAT),
    _estimator("posterior.views.boosted_classes:BoostedClasses", "most_rows", classes_=ints("classes"),
        _met=ints("classes", below="classes"), _roots=ints("trees", below="nodes"), _feature=ints("nodes"),
        _threshold=floats("nodes"), _right=ints("nodes", below="nodes"), _values=floats("nodes"),
        _baseline=floats("_")),
    _estimator("posterior.views.forest:ForestClasses", "n_trees rows_a_tree smallest_split", classes_=ints("classes"),
        smallest_split_=count(), **_TREES),
    _estimator("annotate.scorers.keyword_forest:KeywordForest", "n_trees rows_a_tree", classes_=ints("classes"),
        **_TREES, **_KEYWORDS, _row=ints("rows", below="rows")),
    _estimator("posterior.views.gaussian_classes:GaussianClasses", "scores",
        classes_=ints("classes"), _standardized=of("LinearMap"), _basis=floats("columns directions"),
        _whitening=floats("directions directions"),
        _factors=may(floats("directions _")), _offsets=may(floats("_")), _half_log_det=may(floats("classes")),
        _of_many=may(NONE | of("ManyGaussians", "classes directions")),
        _quantiles=of("ColumnQuantiles", "columns")),
    _class("posterior.views.many_gaussians:ManyGaussians", means=floats("classes directions"),
        directions=floats("bent directions"), first=starts("classes+1", of="bent"), along_means=floats("bent"),
        scales=floats("classes"), half_log_det=floats("classes")),
    _class("posterior.evidence.novelty:Novelty", past=may(of("PastCases", "rows classes")), k=count(),
        _past_reach=may(floats("_ _")), _nearly_equal=may(FLOAT), _usual=may(NONE | of("UsualSigns")),
        _known_reach=may(floats("rows")), twin_share=may(FLOAT)),
    _class("posterior.evidence.novelty:UsualSigns", center=floats("4"), scale=floats("4"),
        scores=floats("cases"), labels=ints("cases")),
    # classifiers
    _class("posterior.row_weights:GivenRows", labels=ints("given", below="classes", least=-1),
        ids=NONE | values("given"), held=NONE | ints("rows", below="given"), left_aside=NONE | numbers("_ _"),
        groups=NONE | ints("given")),
    _class("posterior.model:FittedModel", **_FITTED, views=of("Views", "rows classes"), posterior=of(POSTERIORS,
        "rows classes"), past=of("PastCases", "rows classes"), novelty=of("Novelty", "rows classes"),
        _past_answers=may(pair_of(of("Records"), floats("_")))),
    _class("posterior.fused_model:FusedModel", **_FITTED, views=of("GroupViews", "rows classes views"),
        posterior=of("Fusion", "rows classes views"), past=NONE, novelty=NONE, judged=NONE | ints("_", below="rows")),
    _class("posterior.choice.model_fit:FitOptions", n_neighbors=PLAIN, posterior=POSTERIOR, metric=METRIC,
        search=SEARCH, tie_break=TEXT, beside=tuple_of(pair_of(TEXT, of(SKLEARN_MODELS))), priors=PLAIN, seed=INT,
        n_jobs=JOBS, views=NONE, columns=NONE, keep_copies=BOOL, make_view=NONE, shards=NONE,
        blocks=tuple_of(pair_of(count(), count())), verbose=BOOL),
    _class("posterior.fused_model:FusedOptions", of_each=of("FitOptions"), groups=dict_of(TEXT, SLICE | ints("_")),
        exponents=PLAIN, fusion=TEXT),
    _class("posterior.nested:NestedFits", options=of("FitOptions FusedOptions"), X=numbers("rows _"),
        labels=LABELS, classes=values("classes"), weights=_WEIGHTS,
        beside_proba=NONE | list_of(NONE | floats("rows classes")), order=ints("_", below="rows"),
        groups=NONE | ints("rows"), answers=may(list_of(pair_of(ints("_", below="rows"), floats("_ classes"))))),
    _estimator("posterior.classifier:NeighborClassifier",
        "n_neighbors tie_break priors random_state metric_params verbose",
        posterior=POSTERIOR, metric=METRIC, search=SEARCH, beside=BESIDE, n_jobs=JOBS, **_ANSWERS,
        model_=of("FittedModel", "rows classes"), table_=NONE | of("EncodedTable")),
    _estimator("posterior.fused:FusedClassifier", "exponents fusion", feature_groups=plain_with(of(DISTANCES)),
        estimator=NONE | of("NeighborClassifier"), **_ANSWERS, model_=of("FusedModel", "rows classes")),
    _class("posterior.methods.fusion:Fusion", posterior=of(POSTERIORS), exponents=PLAIN, n_classes_=count("classes"),
        _has_class=bools("views classes"), _labels=LABELS, _rows=ints("cases", below="rows"),
        exponents_=floats("views"), _exponents_left_out=floats("cases views"), _joint=NONE | of("Pooled",
        "rows classes"), posteriors_=list_of(of(POSTERIORS, "rows classes"))),
    _estimator("decision.fold_models:FoldModels", "",
        estimators=list_of(of(f"{CLASSIFIERS} {SKLEARN_MODELS}")),
        estimators_=list_of(of(f"{CLASSIFIERS} {SKLEARN_MODELS}")), fitted_on_=list_of(ints("_")),
        classes_=values("classes"), n_features_in_=count(), feature_names_in_=values("_")),
    _estimator("decision.hedged:HedgedClassifier", "accuracy confidence rule cv branches",
        taxonomy=TAXONOMY, **_AROUND_CLASSIFIER, taxonomy_=of("Taxonomy", "nodes"),
        _class_nodes=ints("classes", below="nodes"), _leaf_mass=sparse_matrix("classes", "leaves"),
        _names=values("nodes"), _branch_of_leaves=ints("leaves"), _excess=FLOAT,
        _ways=list_of(of("Way", "nodes")), settings_=floats("_"), _way=of("Way", "nodes"),
        _curve=of("AccuracyCurve")),
    _class("decision.hedged:Way", estimator=NONE | MODEL, curve=of("AccuracyCurve"),
        by_branch=dict_of(KEY, of("AccuracyCurve")), past=NONE | of("PastAnswers", "nodes")),
    _class("decision.envelope:AccuracyCurve", rule=TEXT, settings=floats("steps"),
        n_right=ints("steps"), gain=floats("steps"), n_rows=count(), most_information=FLOAT),
    _class("decision.envelope:OperatingPoints", rule=TEXT, starts=starts("cases+1", of="points"),
        settings=floats("points"), nodes=ints("points", below="nodes")),
    _class("decision.records:PastAnswers", points=of("OperatingPoints", "nodes cases points"),
        p=floats("points"), right=bools("points"), branch=ints("cases"), root=INT,
        group=NONE | ints("cases", below="cases")),
    _estimator("decision.conformal:ConformalClassifier",
        "coverage max_nodes per_class conformity_score cv", taxonomy=TAXONOMY, **_AROUND_CLASSIFIER,
        _labels=ints("cases", below="classes"),
        _scores=floats("cases"), _unseen=bools("cases"), _n_unseen=count(most=1 << 24), unseen_class_rate_=FLOAT,
        _stratum=ints("cases"), strata_=NONE | values("strata"), thresholds_=floats("classes|strata classes")),
    _class("posterior.evidence.evidence:Evidence", label=KEY, probability=FLOAT,
        probabilities=dict_of(KEY, FLOAT), votes=dict_of(KEY, FLOAT), neighbors=list_of(INT),
        distances=list_of(FLOAT), labels=list_of(KEY), novelty=FLOAT, record=PLAIN, ids=PLAIN, twin=NONE | INT,
        compared=NONE | list_of(TEXT), models=PLAIN),
    # learned metrics
    _estimator("learn.itml:ITML",
        "gamma n_constraints n_neighbors prior bounds max_iter tol random_state verbose", taxonomy=TAXONOMY,
        **_LEARNED_MAP, bounds_=pair_of(FLOAT, FLOAT)),
    _estimator("learn.lmnn.lmnn:LMNN", "n_neighbors push margin max_iter tol n_components shrinkage verbose",
        taxonomy=TAXONOMY, **_LEARNED_MAP),
    _estimator("learn.boost_metric:BoostMetric",
        "n_triplets near start max_iter trace_penalty tol validation_fraction random_state verbose",
        taxonomy=TAXONOMY, **_LEARNED_MAP, validation_curve_=dict_of(INT, FLOAT), n_rounds_=count()),
    _estimator("learn.whitening:WithinClassWhitening", "power pull shrinkage", **_LEARNED_MAP,
        shrinkage_=FLOAT),
    _estimator("learn.keyword_projection:KeywordProjection", "n_components shrinkage",
        **_LEARNED_MAP, correlations_=floats("_")),
    _estimator("learn.rank_boost:RankBoostNeighbors",
        "max_iter n_pairs depth top weighting rest joint random_state", features=METRIC,
        n_features_in_=count("columns"), _held=of("HeldSpaces", "rows columns"),
        space_names_=tuple_of(TEXT, "rankings"), n_preferences_=count(), boosted_=of("Boosted", "rankings rows")),
    _class("learn.rank_boost:Boosted", spaces=ints("rounds", below="rankings"),
        thresholds=ints("rounds", below="rows"), alphas=floats("rounds"), errors=floats("rounds"),
        bounds=floats("rounds")),
    # keywords
    _estimator("annotate.annotator:KeywordAnnotator",
        "n_neighbors n_keywords min_probability recall precision order recall_weight cv words",
        taxonomy=TAXONOMY, threshold_=NONE | FLOAT,
        neighbors=plain_with(of(f"{ANNOTATORS} {SKLEARN_MODELS}")), features=METRIC,
        relevance=plain_with(of("Relevance")), **_KEYWORDS, ids_=NONE | values("rows"), _named=BOOL, _sparse=BOOL,
        _columns=NONE | of("KeywordColumns", "columns"), choices_=NONE | of("ScorerChoices"),
        _scorers=list_of(of("KeywordScorer")), _finder=NONE | of("KeywordScorer"),
        calibration_=of("KeywordCalibration", "words"), held_out_rows_=ints("cases", below="rows"),
        held_out_proba_=floats("cases words"), worth_=NONE | of("Worth", "words")),
    _class("annotate.scorers.keyword_scorers:KeywordScorer",
        estimator=of(f"{ANNOTATORS} {SKLEARN_MODELS}"), relevances=tuple_of(TEXT | of("Relevance")),
        n_neighbors=count(), sees_columns=BOOL, _keywords=may(NONE | sparse_matrix("_", "_"))),
    _class("annotate.calibration:KeywordCalibration", **_SIGMOIDS, log_odds=floats("words"),
        slopes=floats("words"), shifts=floats("words")),
    _class("annotate.scorers.relevance:Relevance", kind=TEXT, decay=FLOAT, bandwidth=NONE | FLOAT,
        sharpness=FLOAT),
    _class("annotate.scorer_choice:ScorerChoice", scorer=TEXT, alone=FLOAT, without=NONE | FLOAT),
    _class("annotate.scorer_choice:ScorerChoices", _tried=list_of(of("ScorerChoice")),
        together=FLOAT, n_cases=count()),
    _class("annotate.word_selection:Worth", precision=floats("words"), given=floats("words"),
        had=floats("words"), recall_weight=FLOAT),
    _estimator("annotate.auto_scorers:SomeColumns", "", ranges=list_of(SLICE)),
    _estimator("annotate.keyword_columns:KeywordColumns", "", features=METRIC,
        n_features_in_=count("columns"), _vectors=list_of(of("FeatureSpace", "columns")),
        others_=dict_of(TEXT, of("LandmarkFeatures")), _views=dict_of(TEXT, tuple_of(of("ColumnView") | FLOAT)),
        views_=dict_of(TEXT, TEXT), _mean=NONE | floats("_"), _directions=NONE | floats("_ _"),
        _near=dict_of(TEXT, of("LandmarkFeatures")), blocks_=dict_of(TEXT, SLICE)),
    _class("annotate.keyword_columns:ColumnView", name=TEXT, divisors=floats("_")),
    _estimator("annotate.scorers.landmarks:LandmarkFeatures",
        "weights n_landmarks n_components sharpness", features=METRIC, n_features_in_=count("columns"),
        landmarks_=of("JointNeighbors", "columns"), mean_distance_=FLOAT, _components=floats("_ _")),
    _estimator("annotate.scorers.joint_neighbors:JointNeighbors", "weights", features=METRIC,
        **_ORDERING),
    _estimator("annotate.scorers.transformed_neighbors:TransformedNeighbors", "",
        transformer=TRANSFORMER, metric=METRIC, n_features_in_=count(), transformer_=TRANSFORMER,
        index_=of("NeighborIndex", "rows")),
    _estimator("annotate.scorers.two_pass_neighbors:TwoPassNeighbors", "per_word",
        base=NONE | of(ORDERINGS), base_=of(ORDERINGS, "rows"), n_features_in_=count("columns"),
        _keywords=sparse_matrix("rows", "words")),
    _estimator("annotate.scorers.regression:KeywordRegression", "shrinkage",
        transformer=TRANSFORMER, n_features_in_=count("columns"), words_=values("words"), transformer_=TRANSFORMER,
        _share=floats("words"), shrinkage_=FLOAT, _mean=floats("_"), _weights=floats("_ words")),
    _estimator("annotate.scorers.ml_knn:MLkNN", "n_neighbors smoothing", base=NONE | of(ORDERINGS),
        base_=of(ORDERINGS, "rows"), **_KEYWORDS, _index=NONE | of("NeighborIndex", "rows"),
        record_=of("VoteRecord", "words"), _proba=floats("words _")),
    _class("annotate.scorers.ml_knn:VoteRecord", has=ints("words votes"), lacks=ints("words votes")),
    # what a collection has learned
    _class("collection.state.learned:Learned", transforms=list_of(of("LiveTransform")),
        n_neighbors=count(most=1 << 20), members=MEMBERS, n_rows=count(), version=count(),
        requested=pair_of(PLAIN, PLAIN), of_labels=BOOL, fold=ints("_", least=-1), records=of("Records"),
        set_shares=floats("_"), novelty=of("Novelty"),
        posterior=of(POSTERIORS), posterior_name=TEXT, choices=list_of(TEXT), hedge=NONE | of("HedgedClassifier"),
        keywords=may(NONE | of("LearnedKeywords")), models=list_of(of("LearnedModel")),
        validation=may(ints("_")), near_duplicates=may(ints("_"))),
    _class("collection.state.live_models:LearnedModel", name=TEXT, classes=texts("classes"), whole=_OWN_MODEL,
        without=tuple_of(NONE | _OWN_MODEL), rows=ints("_"), spread=FLOAT),
    _class("collection.state.keywords.learned_keywords:LearnedKeywords", transform=of("LiveTransform"),
        fold=ints("_", least=-1), odds=of("WordOdds"), n_neighbors=count(most=1 << 20)),
    _class("collection.state.keywords.word_odds:WordOdds", **_SIGMOIDS, words=texts("words"),
        log_odds=floats("words+1"), slopes=floats("words+1"), shifts=floats("words+1")),
    _class("collection.state.live_views:LiveTransform", name=TEXT, metric=TEXT,
        whole=NONE | of("LinearMap OneScale ScaledColumns"), without=tuple_of(of("LinearMap")),
        columns=NONE | pair_of(count(), count())),
    _class("collection.state.keywords.learned_keywords:OneScale", center=floats("columns"),
        scale=floats("columns")),
    _class("collection.state.feature_groups:ScaledColumns", scales=floats("columns")),
    # texts
    _estimator("describe.texts.word_vectors:WordVectors", "n_columns n_words n_parts", words_=texts("words"),
        parts_=texts("parts"), idf_=floats("terms"), components_=floats("terms columns")),
    # scikit-learn: models that are made of arrays. None of them holds a function, a path or compiled parts.
    _of_sklearn("linear_model:LogisticRegression", classes_=values("classes")),
    _of_sklearn("linear_model:RidgeClassifier", _label_binarizer=of("LabelBinarizer")),
    _of_sklearn("discriminant_analysis:LinearDiscriminantAnalysis",
        covariance_estimator=NONE, classes_=values("classes")),
    _of_sklearn("discriminant_analysis:QuadraticDiscriminantAnalysis",
        covariance_estimator=NONE, classes_=values("classes")),
    *(
        _of_sklearn(f"naive_bayes:{name}", classes_=values("classes"))
        for name in ("GaussianNB", "MultinomialNB", "BernoulliNB", "ComplementNB")
    ),
    *(
        _of_sklearn(f"preprocessing:{name}")
        for name in ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Normalizer", "LabelBinarizer")
    ),
    *(
        _of_sklearn(f"decomposition:{name}")
        for name in ("PCA", "TruncatedSVD")
    ),
    # Its memory would be a folder of pickles.
    Savable(
        "sklearn.pipeline:Pipeline",
        {
            "steps": list_of(pair_of(TEXT, TEXT | NONE | STEP)),
            "memory": NONE,
            "verbose": BOOL,
            "transform_input": may(PLAIN),
        },
    ),
)
# fmt: on
SAVABLE: dict[str, Savable] = {savable.name: savable for savable in CLASSES}
