"""HTTP layers that every request passes: head limits, rate limits, problem documents, ticks."""
