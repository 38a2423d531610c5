"""Drawings of keyword annotation."""
