"""Compiled loops over small universes: every cell knows where it lies in all tables, which follow each other."""

from __future__ import annotations

from numba import njit

__all__ = ["add_rows", "centre", "copy_rows", "read_tables", "sum_cells"]


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


@njit(cache=True, nogil=True, error_model="numpy")
def add_rows(numbers, rows, listed, tables):
    """Add numbers to tables, row by row: the first number, the first cell, how many cells, and where their numbers are
    listed; negative if they follow each other."""
    for row in range(rows.shape[0]):
        number, cell, length, place = rows[row]
        if place < 0:
            for step in range(length):
                tables[cell + step] += numbers[number + step]
        else:
            for step in range(length):
                tables[cell + step] += numbers[number + listed[place + step]]


@njit(cache=True, nogil=True, error_model="numpy")
def copy_rows(tables, rows, listed, numbers):
    """The adjoint: the numbers of the cells."""
    for row in range(rows.shape[0]):
        number, cell, length, place = rows[row]
        if place < 0:
            for step in range(length):
                numbers[number + step] = tables[cell + step]
        else:
            for step in range(length):
                numbers[number + listed[place + step]] = tables[cell + step]
