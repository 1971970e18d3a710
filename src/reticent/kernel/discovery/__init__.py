"""Private discovery of undeclared columns: medians of numbers, common texts."""
