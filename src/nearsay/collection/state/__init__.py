"""A collection at one version, in memory: items, voters, views, what was learned, and answers from them."""
