"""The table of named posteriors, and how a user's word or object becomes one."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal, get_args

from nearsay.core.classes_by_name import classes_by_name
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.settings import check_choice
from nearsay.data.saved.saved_by_name import named_in_file, save_by_name
from nearsay.errors import unknown_name
from nearsay.posterior.base import Posterior, check_past_cases_and_failure
from nearsay.posterior.methods.custom_posterior import CustomPosterior, as_one
from nearsay.posterior.past_cases import MAX_PAST_CASES

AUTO: Literal["auto"] = "auto"
CRITERIA = ("log_posterior", "accuracy")

# Every name of a posterior. A new one is a class with this ``name`` in a module beside this one.
PosteriorName = Literal[
    "proportional",
    "weighted",
    "dist&votesplit",
    "confmat",
    "rank",
    "rank&votesplit",
    "confmat&rank",
    "confmat&rank&votesplit",
    "pooled",
    "auto",
]

POSTERIORS: dict[str, Callable[..., Posterior]] = classes_by_name(
    [name for name in get_args(PosteriorName) if name != AUTO], beside=__name__
)
save_by_name(POSTERIORS, "NamedPosterior")

# What "auto" tries where time counts: plain votes, weighted votes, and the pool, which is nearly always taken.
FEW = ("pooled", "proportional", "weighted")


class NamedPosterior:
    """A posterior as a file holds it: its name and what it has learned."""

    @classmethod
    def _from_saved(cls, fields: dict[str, Any]) -> Any:
        made: Any = object.__new__(named_in_file(POSTERIORS, fields.pop("name")))
        vars(made).update(fields)
        return made


class Auto(DocumentedEstimator):
    """The posterior that past cases choose: ``posterior="auto"``, with options.

    Parameters
    ----------
    criterion : {"log_posterior", "accuracy"}, default="log_posterior"
        What is chosen by.
    max_past_cases : int or None, default=10_000
        How many training rows of a larger collection are asked about the others, at most, to learn
        from and to choose by. Where all classes are listed (as the pool asks), fewer are, down to a
        fifth from five times as many rows on, and with several views fewer too, so that asking takes
        about as long as four searches of that many; learning comes on top. None asks all.
    model_failure : float, default=0.01
        As in each posterior that is tried.

    >>> Auto(criterion="accuracy")
    Auto(criterion='accuracy')
    """

    def __init__(
        self,
        *,
        criterion: Literal["log_posterior", "accuracy"] = "log_posterior",
        max_past_cases: int | None = MAX_PAST_CASES,
        model_failure: float = 0.01,
    ) -> None:
        self.criterion = criterion
        self.max_past_cases = max_past_cases
        self.model_failure = model_failure

    def check_parameters(self) -> None:
        """Raise an InputError for parameters that cannot be used."""
        check_choice("criterion", self.criterion, CRITERIA)
        check_past_cases_and_failure(self.max_past_cases, self.model_failure)

    def posterior(self, name: str) -> Posterior:
        """A fresh posterior of this name, with these options."""
        made = POSTERIORS[name](model_failure=self.model_failure)
        if made.needs_past_cases:
            made.max_past_cases = self.max_past_cases
        return made


def is_auto(given: Any) -> bool:
    """Whether a setting is left to the past cases.

    >>> is_auto("auto"), is_auto(Auto(max_past_cases=500)), is_auto("rank")
    (True, True, False)
    """
    return isinstance(given, Auto) or (isinstance(given, str) and given == AUTO)


def as_posterior(posterior: Any) -> Posterior:
    """Give a fresh posterior for a name or an object.

    An object is copied: what the user passed is never written to.

    >>> from nearsay.posterior.methods.confusion import Confmat
    >>> as_posterior("rank"), as_posterior(Confmat(normalize="column"))
    (Rank(), Confmat(normalize='column'))
    >>> as_posterior("propotional")
    Traceback (most recent call last):
    nearsay.errors.InputError: Unknown posterior 'propotional' (did you mean 'proportional'?). Known names: ...
    """
    if isinstance(posterior, str) and posterior in POSTERIORS:
        return POSTERIORS[posterior]()
    is_object = not isinstance(posterior, type)
    if is_object and callable(getattr(posterior, "fit", None)) and callable(getattr(posterior, "proba", None)):
        made = as_one(deepcopy(posterior))
        made.check_parameters()
        return made
    hint = " You can also pass an object with fit(table, labels, n_classes) and proba(table)."
    raise unknown_name("posterior", posterior, [*POSTERIORS, AUTO], hint)


def name_of(posterior: Any) -> str:
    """A word for a posterior in tables and sentences.

    >>> from nearsay.posterior.methods.pooled import Pooled
    >>> name_of("rank"), name_of(Pooled(members=(1, 4))), name_of(Auto())
    ('rank', 'pooled', 'auto')
    """
    if isinstance(posterior, str):
        return posterior
    if isinstance(posterior, Auto):
        return AUTO
    if isinstance(posterior, CustomPosterior):
        posterior = posterior.custom
    names = {kind: name for name, kind in POSTERIORS.items()}
    return names.get(type(posterior), type(posterior).__name__)
