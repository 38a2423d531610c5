"""The papers' tables and figures, ours beside theirs: ``python -m reproduce``, from a checkout.

A module or folder a command: ``nearest`` (k-NN on MNIST by three distances), ``probabilities`` (Mallah and Orwell),
``hedging`` (the accuracy-specificity trade-off), ``annotation`` (keywords for Corel5K). In each folder ``published``
holds what the papers print, ``tables`` or ``figures`` measures ours, and ``rendering`` prints and draws both.
"""
