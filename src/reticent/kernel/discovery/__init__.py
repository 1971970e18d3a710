"""What may be learned about a column whose values nobody declared: medians of numbers, common texts."""
