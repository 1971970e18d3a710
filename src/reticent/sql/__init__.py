"""SQL: a statement is compiled to linear queries and post-processing of their answers; anything else is refused."""

from reticent.sql.asking import read_sql_workload, workload_of_sql
from reticent.sql.error_targets import shortfall, targets
from reticent.sql.result import ResultTable, refuse_sums
from reticent.sql.statement import Statement, compile_sql, run

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
