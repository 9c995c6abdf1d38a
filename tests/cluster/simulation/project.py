# SPDX-License-Identifier: GPL-2.0-or-later
"""The installed project's part of the cluster's configuration, taken from its prefix."""

from __future__ import annotations

from pathlib import Path

from . import settings
from .layout import Cluster
from .report import ClusterError
from .rootfs import hidden

_SHARE = "share/batchai"


def check(prefix: str) -> None:
    """Refuses a prefix that the cluster's users could not read."""
    path = Path(prefix)
    if not path.is_dir():
        raise ClusterError(
            f"the prefix {prefix} is not a directory", hint="run cmake --install first"
        )
    # What hosts hide is shown to them at its own path, below directories made for it.
    to_check = [path] if hidden(prefix) else [path, *path.parents]
    for directory in to_check:
        if directory.stat().st_mode & 0o005 != 0o005:
            raise ClusterError(
                f"{directory} is closed to ordinary users: they could not use {prefix}",
                hint=f"chmod a+rx {directory}, or install elsewhere",
            )


def _plugstack_line(prefix: Path) -> str | None:
    own = prefix / _SHARE / "plugstack.conf"
    if own.is_file():
        return own.read_text()
    plugins = sorted(prefix.glob("lib*/slurm/batchai.so")) + sorted(
        prefix.glob("lib/*/slurm/batchai.so")
    )
    return f"optional {plugins[0]}\n" if plugins else None


def _name_pmi(site: Path) -> None:
    """Makes a site.lua where batchai's default for the PMI of ranks cannot work.

    Debian testing has a Slurm without a plugin for PMIx.
    """
    has_pmix = any(Path("/usr/lib").glob("*/slurm*/mpi_pmix.so"))
    if not has_pmix and not site.exists():
        settings.put(site, 'return { mpi = "pmi2" }\n')


def configure(cluster: Cluster) -> bool:
    """Puts the plugin's line and the CLI filter in place. True if there is a CLI filter."""
    _name_pmi(cluster.etc / "batchai" / "site.lua")
    slurm = cluster.etc / "slurm"
    plugin = slurm / "plugstack.conf.d" / "batchai.conf"
    cli_filter = slurm / "cli_filter.lua"
    prefix = Path(cluster.prefix) if cluster.prefix else None
    line = _plugstack_line(prefix) if prefix else None
    if line is None:
        plugin.unlink(missing_ok=True)
    else:
        settings.put(plugin, line)
    source = prefix / _SHARE / "cli_filter.lua" if prefix else None
    if source is None or not source.is_file():
        cli_filter.unlink(missing_ok=True)
        return False
    settings.put(cli_filter, source.read_text())
    return True
