# SPDX-License-Identifier: GPL-2.0-or-later
"""Run as root on the test cluster's login host by `run`: many jobs out of one that has ended.

Arguments: the name of that job, of the cluster, and how many jobs there are to be. Each gets a
record of its own in alice's store and a row in the accounting database, both copies of the first
one's but for the ids.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

_USER = "alice"
_FIRST_ID = 100_000


def _record(name: str) -> Path:
    found = list(Path(f"~{_USER}").expanduser().glob(f".batchai/**/jobs/{name}/job.json"))
    if len(found) != 1:
        sys.exit(f"fill: there are {len(found)} records of a job {name}, not one")
    return found[0]


def _sql(statement: str) -> str:
    argv = ["runuser", "-u", "slurm", "--", "mariadb", "--batch", "--skip-column-names"]
    argv += ["--socket=/run/mysqld/mysqld.sock", "slurm_acct_db"]
    done = subprocess.run(argv, input=statement, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"fill: {done.stderr.strip()}")
    return done.stdout.strip()


def _copy_records(record: Path, count: int) -> None:
    owner = record.stat()
    text = record.read_text()
    job = json.loads(text)
    for number in range(count):
        directory = record.parent.parent / f"job-{number}"
        shutil.copytree(record.parent, directory, symlinks=True)
        changed = text.replace(job["uuid"], str(uuid.uuid4()))
        changed = changed.replace(f'"{job["slurmJobId"]}"', f'"{_FIRST_ID + number}"')
        (directory / "job.json").write_text(changed)
        for path in (directory, *directory.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _copy_accounting(table: str, job_id: str, count: int) -> None:
    columns = _sql(
        "SELECT CONCAT('`', column_name, '`') FROM information_schema.columns"
        f" WHERE table_schema = 'slurm_acct_db' AND table_name = '{table}'"
        " AND column_name NOT IN ('job_db_inx', 'id_job');"
    )
    names = ", ".join(columns.splitlines())
    _sql(
        f"INSERT INTO `{table}` (id_job, {names})"
        f" SELECT {_FIRST_ID} + seq, {names} FROM `{table}` JOIN seq_0_to_{count - 1}"
        f" WHERE id_job = {int(job_id)};"
    )


def main() -> None:
    name, cluster, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    record = _record(name)
    _copy_records(record, count)
    _copy_accounting(f"{cluster}_job_table", json.loads(record.read_text())["slurmJobId"], count)


if __name__ == "__main__":
    main()
