# SPDX-License-Identifier: GPL-2.0-or-later
"""The installed project's part of the cluster's configuration, taken from its prefix."""

from __future__ import annotations

from pathlib import Path

from . import settings, site, slurm_config
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


def _configure_plugin(cluster: Cluster, prefix: Path | None) -> None:
    slurm = cluster.etc / "slurm"
    plugin = slurm / "plugstack.conf.d" / "batchai.conf"
    line = _plugstack_line(prefix) if prefix else None
    if cluster.has("configless"):
        # What it includes by a pattern is not sent to the hosts.
        settings.put(slurm / "plugstack.conf", line or "")
        return
    settings.put(slurm / "plugstack.conf", slurm_config.plugstack_conf())
    if line is None:
        plugin.unlink(missing_ok=True)
    else:
        settings.put(plugin, line)


def _lua_script(cluster: Cluster, name: str, ours: Path | None) -> str | None:
    """The text of a script of Slurm's: ours, or the site's own with the line that loads ours."""
    own = ours if ours and ours.is_file() else None
    if not cluster.has("lua"):
        return own.read_text() if own else None
    return site.LUA_SCRIPTS[name] + (f'dofile("{own}")\n' if own else "")


def configure(cluster: Cluster) -> bool:
    """Puts the plugin's line and the scripts in place. True if there is a CLI filter."""
    _name_pmi(cluster.etc / "batchai" / "site.lua")
    prefix = Path(cluster.prefix) if cluster.prefix else None
    _configure_plugin(cluster, prefix)
    scripts = ["cli_filter.lua", *(["job_submit.lua"] if cluster.has("lua") else [])]
    written = []
    for name in scripts:
        text = _lua_script(cluster, name, prefix / _SHARE / name if prefix else None)
        file = cluster.etc / "slurm" / name
        if text is None:
            file.unlink(missing_ok=True)
        else:
            settings.put(file, text)
            written.append(name)
    return "cli_filter.lua" in written
