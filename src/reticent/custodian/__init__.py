"""The custodian's own views: exact, never private, unreachable from sessions and services."""
