"""The compiled loop of the first pass of two-pass neighbors. Imported on first use."""

from __future__ import annotations

from nearsay.core.compiling import compiled


@compiled
def nearest_of_each_word(indices, starts, words, per_word, counts, chosen):  # type: ignore[no-untyped-def]
    """Fill each query's ``chosen`` with the places of its neighbors that are among the nearest of one of their words.

    ``indices`` are rows, nearest first, −1 where there are none; ``words`` of row r
    stand from ``starts[r]`` on; ``counts`` is room for one number a word.
    −1 fills up, also beyond the room in ``chosen``.
    """
    for query in range(indices.shape[0]):
        counts[:] = 0
        n_chosen = 0
        for place in range(indices.shape[1]):
            row = indices[query, place]
            if row < 0 or n_chosen == chosen.shape[1]:
                break
            wanted = False
            for at in range(starts[row], starts[row + 1]):
                if counts[words[at]] < per_word:
                    counts[words[at]] += 1
                    wanted = True
            if wanted:
                chosen[query, n_chosen] = place
                n_chosen += 1
        chosen[query, n_chosen:] = -1
