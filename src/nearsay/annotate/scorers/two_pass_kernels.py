"""The compiled loop of the first pass of two-pass neighbors. Imported on first use."""

from __future__ import annotations

from nearsay.core.compiling import compiled


@compiled
def nearest_of_each_word(indices, starts, words, per_word, counts, chosen):  # type: ignore[no-untyped-def]
    """Fill in the places of each query's neighbors that are among the nearest rows of one of their words.

    ``indices`` are rows, nearest first, padded with −1; the words of row r are ``words[starts[r]:starts[r + 1]]``;
    ``counts`` is work space of one number per word. ``chosen`` is padded with −1.
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
