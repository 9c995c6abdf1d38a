# SPDX-License-Identifier: GPL-2.0-or-later
"""A private MariaDB for slurmdbd: reachable by a socket on the login host only."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .layout import Cluster
from .report import ClusterError, progress

SOCKET = "/run/mysqld/mysqld.sock"
_OPTIONS = """[mariadbd]
user=slurm
socket=/run/mysqld/mysqld.sock
pid-file=/run/mysqld/mysqld.pid
skip-networking
skip-log-bin
performance-schema=OFF
max-connections=32
innodb-buffer-pool-size=64M
innodb-log-file-size=16M
innodb-flush-log-at-trx-commit=0
innodb-flush-method=nosync
innodb-lock-wait-timeout=900
# On by default from 11.6.2 on, and then slurmdbd can fail; older servers do not know it.
loose-innodb-snapshot-isolation=OFF
"""
# slurmdbd runs as the user slurm; the server knows that from the socket, so no password exists.
_SETUP = """CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket;
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
"""


def _cache() -> Path:
    return Path(os.environ.get("BATCHAI_CACHE") or "/var/cache/batchai").absolute()


def template() -> Path:
    """An empty data directory, made once per server version and kept in the cache."""
    done = subprocess.run(["mariadbd", "--version"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError("mariadbd does not run", hint="run scripts/setup")
    version = done.stdout.split()[2]
    template = _cache() / f"mariadb-template-{version}"
    if template.is_dir():
        return template
    progress("making an empty MariaDB data directory (kept for the next time)")
    template.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="mariadb-new-", dir=template.parent))
    options = fresh / "my.cnf"
    options.write_text(_OPTIONS)
    fresh.chmod(0o755)
    data = fresh / "data"
    done = subprocess.run(
        ["mariadb-install-db", f"--defaults-file={options}", f"--datadir={data}", "--skip-test-db"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        shutil.rmtree(fresh)
        raise ClusterError(
            f"mariadb-install-db failed: {(done.stdout + done.stderr).strip()[-800:]}"
        )
    try:
        fresh.rename(template)
    except OSError:  # another cluster was quicker
        shutil.rmtree(fresh)
    return template


def prepare(cluster: Cluster) -> None:
    """Gives the cluster a data directory and the server its options."""
    state = cluster.directory / "state"
    subprocess.run(
        [
            "cp",
            "-a",
            "--reflink=auto",
            "--sparse=always",
            f"{template()}/data",
            f"{state}/mariadb",
        ],
        check=True,
    )
    (cluster.etc / "mariadb" / "my.cnf").write_text(_OPTIONS)
    (cluster.etc / "mariadb" / "setup.sql").write_text(_SETUP)


def command() -> list[str]:
    return [
        "mariadbd",
        "--defaults-file=/etc/mariadb/my.cnf",
        "--init-file=/etc/mariadb/setup.sql",
        "--datadir=/run/mysqld/data",
    ]
