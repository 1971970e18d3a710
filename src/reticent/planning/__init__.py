"""Certified errors from formulas, before anything is spent."""
