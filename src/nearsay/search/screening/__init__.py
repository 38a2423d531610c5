"""Exact search's screen: rows ruled out by quick products, and the bound on rounding that proves none was missed."""
