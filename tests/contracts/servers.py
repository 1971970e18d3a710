"""A PostgreSQL server and a Spark session of the tests' own, from what `make databases` installs.

Where one cannot be had the tests say so and skip; where RETICENT_NEEDS_DATABASES is set in CI they fail.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

PASSWORD = "open-sesame"


def _absent(what: str) -> NoReturn:
    if os.environ.get("CI") and os.environ.get("RETICENT_NEEDS_DATABASES"):
        pytest.fail(f"CI must have {what}; run `make databases`")
    pytest.skip(f"{what} is not installed here; run `make databases`")


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(p) for p in [shutil.which("initdb")] if p]
    if not found:
        _absent("PostgreSQL (initdb)")
    return found[-1].parent


def _account() -> str:
    """The server refuses to run as root."""
    if os.geteuid() != 0:
        return getpass.getuser()
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """A cluster in a temporary folder on the loopback; yields its URL (password authentication)."""
    if importlib.util.find_spec("psycopg") is None:
        _absent("psycopg")
    binaries, account, port = _binaries(), _account(), _free_port()
    folder = Path(tempfile.mkdtemp(prefix="reticent-pg-"))
    options: dict[str, Any] = {"user": account, "group": pwd.getpwnam(account).pw_gid} if os.geteuid() == 0 else {}
    options |= {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    if os.geteuid() == 0:
        shutil.chown(folder, account)
    secret = folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    data = str(folder / "data")
    initialise = [binaries / "initdb", "-D", data, "-U", "keeper", "-A", "scram-sha-256", "--pwfile", secret, "-N"]
    subprocess.run([*initialise, "-E", "UTF8", "--locale", "C.UTF-8"], **options)
    settings = f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off -c max_connections=10"
    subprocess.run([binaries / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", settings, "start"], **options)
    try:
        yield f"postgresql://keeper:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([binaries / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **options)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def spark_session(threads: int = 1, **settings: str) -> Iterator[Any]:
    """Spark in local mode on the loopback, quiet; its JVM is told to start fast rather than to run fast."""
    if importlib.util.find_spec("pyspark") is None:
        _absent("pyspark")
    if shutil.which("java") is None:
        _absent("Java, which Spark needs,")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{threads}]").appName("reticent-tests")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.log.level": "OFF",
        **settings,
    }.items():
        builder = builder.config(key, value)
    # Else Spark leaves an empty folder of this kind wherever the tests were started.
    with tempfile.TemporaryDirectory(prefix="reticent-spark-") as warehouse:
        session = builder.config("spark.sql.warehouse.dir", warehouse).getOrCreate()
        try:
            yield session
        finally:
            session.stop()
