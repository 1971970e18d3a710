"""The service: many analysts share one table and one budget over HTTP; paid answers one by one, free ones at once."""
