"""Metrics, projections and rankings learned from labels or keywords."""
