"""Speed, measured against the peers: each module runs us and them in one process and prints ratios.

``python -m benchmarks`` runs all of them, ``--tiny`` on sizes that only show
that they still work, ``python -m benchmarks.search`` one of them.
"""
