# SPDX-License-Identifier: GPL-2.0-or-later
"""A command on a host as one of its users, in the environment of a fresh login."""

from __future__ import annotations

import grp
import os
import pwd
import signal
import sys

from . import kernel
from .layout import Cluster
from .report import ClusterError

_NAMESPACES = ("ipc", "uts", "net", "pid", "cgroup", "mnt")
_FORWARDED = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_SENT_BY_KERNEL = 0x80
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


def _join(anchor: int) -> None:
    """Enters the host. Children of this process are then processes of the host."""
    opened = {name: os.open(f"/proc/{anchor}/ns/{name}", os.O_RDONLY) for name in _NAMESPACES}
    for name, descriptor in opened.items():
        kernel.setns(descriptor, name)
        os.close(descriptor)


def _environment(cluster: Cluster, account: pwd.struct_passwd, extra: list[str]) -> dict[str, str]:
    path = _SYSTEM_PATH if account.pw_uid else f"/usr/local/sbin:/usr/sbin:/sbin:{_SYSTEM_PATH}"
    environment = {
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": account.pw_shell,
        "LANG": "C.UTF-8",
        "TERM": os.environ.get("TERM", "dumb"),
        "PATH": f"{cluster.prefix}/bin:{path}" if cluster.prefix else path,
    }
    for setting in extra:
        name, equals, value = setting.partition("=")
        if not name or not equals:
            raise ClusterError(f"--env {setting!r} is not NAME=VALUE")
        environment[name] = value
    return environment


def _become(account: pwd.struct_passwd, directory: str | None) -> None:
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    os.setgroups(groups)
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    # Now, as changing the user id forgets it: no command outlives the one that asked for it.
    kernel.end_with_parent(signal.SIGTERM)
    os.chdir(directory or account.pw_dir)


def _run_command(
    argv: list[str], environment: dict[str, str], account: pwd.struct_passwd, directory: str | None
) -> None:
    try:
        for number in _FORWARDED:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [*_FORWARDED, signal.SIGCHLD])
        os.closerange(3, 65536)
        _become(account, directory)
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        print(f"minicluster: error: {argv[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _await(child: int) -> int:
    """Passes signals on until the command ends; its exit code, or 128 and the signal's number."""
    while True:
        pid, ended = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(ended)
            return code if code >= 0 else 128 - code
        received = signal.sigwaitinfo([*_FORWARDED, signal.SIGCHLD])
        from_terminal = received.si_code == _SENT_BY_KERNEL
        if received.si_signo != signal.SIGCHLD and not from_terminal:
            # The terminal's Ctrl-C reached the command already: both are in the foreground group.
            os.kill(child, received.si_signo)


def execute(
    cluster: Cluster,
    anchor: int,
    user: str,
    argv: list[str],
    extra: list[str],
    directory: str | None,
) -> int:
    """Runs argv on the anchor's host; without words, a login shell. Returns its exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [*_FORWARDED, signal.SIGCHLD])
    try:
        _join(anchor)
    except OSError as error:
        raise ClusterError(f"the host cannot be entered: {error}", hint="run it as root") from error
    try:
        account = pwd.getpwnam(user)
        grp.getgrgid(account.pw_gid)
    except KeyError as error:
        raise ClusterError(f"the cluster has no user {user}", hint="alice, bob or root") from error
    environment = _environment(cluster, account, extra)
    child = os.fork()
    if child == 0:
        _run_command(argv or ["/bin/bash", "--login"], environment, account, directory)
    return _await(child)
