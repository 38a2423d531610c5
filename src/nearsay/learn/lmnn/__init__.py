"""Large-margin nearest neighbors: the estimator, its loss, its solver and the compiled loops behind them."""
