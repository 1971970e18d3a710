"""A SQL statement is a few linear queries and post-processing of their answers; what is neither is refused."""

from reticent.sql.basis import refuse_sums
from reticent.sql.error_targets import shortfall, targets
from reticent.sql.result import ResultTable
from reticent.sql.statement import Statement, compile_sql, run
from reticent.sql.workload import read_sql_workload, workload_of_sql

__all__ = [
    "ResultTable",
    "Statement",
    "compile_sql",
    "read_sql_workload",
    "refuse_sums",
    "run",
    "shortfall",
    "targets",
    "workload_of_sql",
]
