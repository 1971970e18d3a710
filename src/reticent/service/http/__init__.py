"""What every request passes through: head limits, rate limits, problems, ticks."""
