"""A hedged answer as a picture of the tree, with votes, probability and reward of each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nearsay.decision.branches import branch_of
from nearsay.decision.hedged import HedgedClassifier
from nearsay.displays import drawing
from nearsay.displays.hedging.hedge_on_tree import SHARE, HedgedNode, HedgeOnTree, hedge_on_tree
from nearsay.posterior.neighbor_estimator import NeighborEstimator
from nearsay.taxonomy.taxonomy import Taxonomy

# Inches: a row, a step down the tree, a column of numbers, the longest bar, the room for a number behind a bar.
ROW, STEP, COLUMN, BAR, BEHIND = 0.25, 0.2, 0.62, 1.9, 0.4
POINTS_OF_LETTERS, LETTER = 9.5, 0.077  # and the width of one in inches, on average
DOT = 7.0  # points
MOST_LETTERS = 48


@dataclass(kw_only=True, eq=False, repr=False)
class HedgeDisplay(drawing.Display):
    """The relevant part of the tree for one query, a line for each node, with the answer in color.

    Build it with :meth:`from_estimator` or :meth:`from_predictions`. The answer is blue, or orange where it is known to
    be wrong. Next to each node: its votes, its probability, its bits, and as a bar the reward of DARTS, probability ×
    (bits + shift); for another rule the probability, with the threshold as a dashed line. Nodes less probable than
    ``share`` are not drawn, except for the paths to the answer, the most probable leaf and the true label.

    Attributes
    ----------
    hedge : HedgeOnTree
        What is drawn, as plain values.

    >>> import nearsay as ns
    >>> pets = ns.Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> X = [[0.0], [1.0], [2.0], [6.0], [6.5], [10.0], [11.0], [12.0], [50.0], [51.0], [52.0]]
    >>> y = ["corgi"] * 3 + ["poodle", "corgi"] + ["poodle"] * 3 + ["cat"] * 3
    >>> knn = ns.NeighborClassifier(3, posterior=ns.posterior.Proportional(model_failure=0.0))
    >>> hedged = ns.HedgedClassifier(knn, pets, accuracy=1.0).fit(X, y)
    >>> hedge = HedgeDisplay.from_estimator(hedged, [[6.2]]).hedge
    >>> hedge.answer, hedge["dog"].votes, hedge["poodle"].votes
    ('dog', 3, 2)
    """

    hedge: HedgeOnTree

    @classmethod
    def from_estimator(
        cls,
        estimator: HedgedClassifier,
        X: Any,
        y: Any = None,
        *,
        names: Mapping[Any, str] | None = None,
        share: float = SHARE,
        ax: Any = None,
    ) -> HedgeDisplay:
        """Query a fitted HedgedClassifier with one row and draw how it chooses a node.

        Parameters
        ----------
        estimator : fitted HedgedClassifier
            Around a NeighborClassifier the votes of the neighbors are shown too.
        X : (1, n_features) or (n_features,)
            The query.
        y : name of a node, optional; its true label.
        names : {node: word}, optional; what nodes are called, by default the taxonomy's words.
        share : float, default=0.05; nodes less probable than that are left out.
        ax : matplotlib axes, optional; a new figure by default.
        """
        hedged = drawing.check_hedged(estimator)
        row = drawing.one_row(X)
        tree = hedged.taxonomy_
        p_leaf = drawing.leaf_probabilities(hedged, row)
        branch = 0 if hedged.branches is None else branch_of(p_leaf, tree, hedged.branches)[0]
        around_neighbors = isinstance(hedged.estimator_, NeighborEstimator)
        return cls.from_predictions(
            y,
            p_leaf,
            taxonomy=tree,
            setting=hedged.settings_[branch],
            rule=hedged.rule_,
            votes=hedged.estimator_.explain(row)[0].votes if around_neighbors else None,
            names=names,
            share=share,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        taxonomy: Taxonomy,
        setting: float,
        rule: str = "darts",
        votes: Mapping[Any, int] | None = None,
        names: Mapping[Any, str] | None = None,
        share: float = SHARE,
        ax: Any = None,
    ) -> HedgeDisplay:
        """Draw the choice of a rule for given probabilities of the leaves.

        Parameters
        ----------
        y_true : the true label of the row, or None
        y_prob : (1, n_leaves) or (n_leaves,) probabilities in the order of ``taxonomy.leaves``
        taxonomy : Taxonomy
        setting : the reward shift of DARTS, or the threshold of another ``rule``.
        rule, votes
            As in ``hedge_on_tree``.
        names, share, ax
            As in ``from_estimator``.
        """
        hedge = hedge_on_tree(
            drawing.one_row(y_prob)[0],
            taxonomy,
            setting,
            rule=rule,
            votes=votes,
            true_label=drawing.one_label(y_true),
            names=names,
            share=share,
        )
        return cls(hedge=hedge).plot(ax=ax)

    def _drawn(self, ax: Any) -> Any:
        nodes = self.hedge.nodes
        columns, bars_at = self._columns()
        width, height = bars_at + BAR + BEHIND, (len(nodes) + 1.1) * ROW
        ax = drawing.fresh_axes(width, height + ROW) if ax is None else ax
        self._draw_branches(ax)
        for name, x in columns.items():
            _write(ax, x, 0, name, ha="right", color=drawing.PALE_INK)
        reward = f"reward = p × (bits + {self.hedge.setting:.2f})"
        _write(ax, bars_at, 0, "probability" if nodes[0].reward is None else reward, color=drawing.PALE_INK)
        for row, node in enumerate(nodes, start=1):
            self._draw_node(ax, row, node, columns)
            self._draw_bar(ax, row, node, bars_at)
        if nodes[0].reward is None and 0 < self.hedge.setting <= 1:
            ax.vlines(
                bars_at + BAR * self.hedge.setting, 0.5 * ROW, height, colors=drawing.INK, linestyles="--", lw=0.8
            )
        ax.set(xlim=(0, width), ylim=(height, -0.5 * ROW))
        ax.set_axis_off()
        title = drawing.as_written(drawing.in_lines(self.hedge.headline, int(width / LETTER)))
        ax.set_title(title, loc="left", fontsize=POINTS_OF_LETTERS, color=drawing.INK)
        return ax

    def _columns(self) -> tuple[dict[str, float], float]:
        """The right ends of the columns of numbers, and the start of the bars."""
        names = max(STEP * (node.depth + 1.1) + LETTER * len(self._named(node)) for node in self.hedge.nodes)
        headers = [*([] if self.hedge.nodes[0].votes is None else ["votes"]), "p", "bits"]
        columns = {name: names + COLUMN * (place + 0.8) for place, name in enumerate(headers)}
        return columns, max(columns.values()) + 0.25

    def _named(self, node: HedgedNode) -> str:
        also = [f"also under {self.hedge[parent].word}" for parent in node.parents[1:]]
        besides = [role for role in self.hedge.roles(node) if role != "answer"] + also
        return drawing.shortened(node.word, MOST_LETTERS) + (f" ({', '.join(besides)})" if besides else "")

    def _draw_branches(self, ax: Any) -> None:
        """Draw lines from each node down to its last child, and across to every child."""
        from matplotlib.collections import LineCollection

        places = {
            node.name: (STEP * (node.depth + 0.5), ROW * row) for row, node in enumerate(self.hedge.nodes, start=1)
        }
        ways = []
        for node in self.hedge.nodes[1:]:
            (x, y), (left, top) = places[node.name], places[node.parents[0]]
            ways.append([(left, top), (left, y), (x, y)])
        ax.add_collection(LineCollection(ways, colors=drawing.PALE_INK, linewidths=0.8, zorder=1))

    def _draw_node(self, ax: Any, row: int, node: HedgedNode, columns: dict[str, float]) -> None:
        x = STEP * (node.depth + 0.5)
        fill = drawing.tinted(drawing.AGREES, min(node.probability, 1.0))
        style = {"marker": "o", "markersize": DOT, "markerfacecolor": fill, "markeredgecolor": self._color(node)}
        ax.plot([x], [ROW * row], zorder=2, **style)
        weight = "bold" if node.name == self.hedge.answer else "normal"
        _write(ax, x + 0.6 * STEP, row, self._named(node), color=self._color(node), fontweight=weight)
        numbers = {"votes": f"{node.votes}", "p": f"{node.probability:.2f}", "bits": f"{node.gain:.2f}"}
        for name, end in columns.items():
            _write(ax, end, row, numbers[name], ha="right", color=drawing.INK)

    def _draw_bar(self, ax: Any, row: int, node: HedgedNode, left: float) -> None:
        from matplotlib.patches import Rectangle

        if node.reward is None:
            length, number = BAR * min(node.probability, 1.0), f"{node.probability:.2f}"
        else:
            best = max(other.reward or 0.0 for other in self.hedge.nodes)
            length, number = BAR * (node.reward / best if best > 0 else 0.0), f"{node.reward:.2f}"
        is_answer = node.name == self.hedge.answer
        color = self._color(node) if is_answer else drawing.tinted(drawing.AGREES, 0.3)
        ax.add_patch(Rectangle((left, ROW * (row - 0.33)), length, 0.66 * ROW, facecolor=color, linewidth=0))
        _write(ax, left + length + 0.06, row, number, color=self._color(node))

    def _color(self, node: HedgedNode) -> str:
        if node.name != self.hedge.answer:
            return drawing.INK
        return drawing.DISAGREES if self.hedge.right is False else drawing.AGREES


def _write(ax: Any, x: float, row: int, words: str, **style: Any) -> None:
    text = drawing.as_written(words)
    ax.text(x, ROW * row, text, va="center_baseline", fontsize=POINTS_OF_LETTERS, **style)
