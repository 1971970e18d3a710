"""Compiled loops over small universes: every cell knows where it lies in all tables, which follow each other."""

from __future__ import annotations

from numba import njit

__all__ = ["centre", "read_tables", "sum_cells"]


@njit(cache=True, nogil=True, error_model="numpy")
def read_tables(tables, index, cells):
    """The sum, at every cell, of the numbers that the tables have there."""
    for cell in range(index.shape[0]):
        total = 0.0
        for place in range(index.shape[1]):
            total += tables[index[cell, place]]
        cells[cell] = total


@njit(cache=True, nogil=True, error_model="numpy")
def sum_cells(cells, index, tables):
    """The adjoint of `read_tables`: the marginals of the cells, in the order of the tables."""
    for place in range(tables.size):
        tables[place] = 0.0
    for cell in range(index.shape[0]):
        value = cells[cell]
        for place in range(index.shape[1]):
            tables[index[cell, place]] += value


@njit(cache=True, nogil=True, error_model="numpy")
def centre(numbers, axes):
    """Take off the mean along some axes in place; each is given by start, outer cells, length and inner cells."""
    for row in range(axes.shape[0]):
        start, outer, length, inner = axes[row]
        for before in range(outer):
            first = start + before * length * inner
            for after in range(first, first + inner):
                total = 0.0
                for step in range(length):
                    total += numbers[after + step * inner]
                mean = total / length
                for step in range(length):
                    numbers[after + step * inner] -= mean
