# SPDX-License-Identifier: Apache-2.0
"""Lets `batchai job stacks` ask this process for its collectives of torch.distributed.

PyTorch's flight recorder notes the last calls of each process group in memory. A thread waits for
questions, because the other threads may be in calls that never return. It writes what it finds into
a file in memory that has no path, like that of batchai_stacks, and is asked through a pipe, which
has none either.

The file begins with a line that says what is needed to ask, and whether it still holds::

    batchai-torch 1 PID DESCRIPTOR PIPE

with the descriptor of the file and the number of the pipe's inode, because programs may close what
they do not know, and open something else in its place. Whoever asks writes a line with a number of
their own into the pipe. The rest of the file then becomes "NUMBER LENGTH", a newline and as many
bytes of JSON.
"""

# ruff: noqa: SIM105
import _signal
import _thread
import fcntl
import json
import os
import sys
import time

from batchai_stacks import memory_file, out_of_the_way

_NAME = "batchai-torch"
_SCHEMA = "batchai-torch/v1"
_MODULE = "torch.distributed.distributed_c10d"
# Of a process group, the calls that have been open for longest are told, and the last collective.
_MOST_CALLS = 8
_MOST_GROUPS = 64
_LONGEST_TEXT = 200

_serving = 0  # the process whose thread has been started
_opened = ()  # its descriptors, each with the identity of what it has opened
_follows_forks = False


def begin() -> None:
    """Start the thread, once in each process: a forked child does not have its parent's."""
    global _serving
    if _serving == os.getpid():
        return
    _serving = os.getpid()
    try:
        _start()
    except Exception:  # whatever it is, the job's program has to go on
        pass


def _start() -> None:
    global _opened, _follows_forks
    _close_inherited()
    file = out_of_the_way(memory_file(_NAME))
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    reader, writer = os.pipe()
    # One descriptor of both ends, so that the pipe never ends.
    questions = out_of_the_way(os.open(f"/proc/self/fd/{reader}", os.O_RDWR))
    os.close(reader)
    os.close(writer)
    head = f"{_NAME} 1 {os.getpid()} {file} {os.fstat(questions).st_ino}\n".encode()
    os.write(file, head)
    _opened = tuple((descriptor, _identity(descriptor)) for descriptor in (file, questions))
    if not _follows_forks:
        _follows_forks = True
        os.register_at_fork(after_in_child=_close_inherited)
    # The thread inherits the mask, and so takes no signal that the program wants elsewhere.
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    try:
        _thread.start_new_thread(_serve, (_opened, len(head)))
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _identity(descriptor: int):  # noqa: ANN202 - a tuple, or None
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _are_ours(opened: tuple) -> bool:
    """Return whether the program has left the descriptors alone."""
    return all(_identity(descriptor) == identity for descriptor, identity in opened)


def _close_inherited() -> None:
    """Close what this process has from its parent, which has forked it."""
    global _opened
    for descriptor, identity in _opened:
        # Somebody else may have closed it, and opened something else.
        if _identity(descriptor) == identity:
            try:
                os.close(descriptor)
            except OSError:
                pass
    _opened = ()


def _serve(opened: tuple, head: int) -> None:
    try:
        try:
            with open("/proc/thread-self/comm", "w") as name:
                name.write(_NAME)
        except OSError:
            pass
        (file, _), (questions, _) = opened
        while _are_ours(opened):
            # Who has asked before the last one has gone by now.
            numbers = os.read(questions, 4096).split()
            if not numbers:
                return  # nobody can ask any more
            answer = json.dumps(_told_or_why_not()).encode()
            text = b"%s %d\n%s" % (numbers[-1], len(answer), answer)
            if not _are_ours(opened):
                return
            os.ftruncate(file, head)
            os.write(file, text)
    except Exception:  # whatever it is, the rank's standard error is the program's
        return


def _told_or_why_not() -> dict:
    try:
        return _told()
    except Exception as error:  # other releases of PyTorch may have other records
        what = f"{type(error).__name__}: {error}"
        return _record(why=f"this release of PyTorch records them in another way ({what})")


def _told() -> dict:
    core = sys.modules["torch._C._distributed_c10d"]
    distributed = sys.modules[_MODULE]
    now = time.time_ns()
    known = _known_groups(distributed)
    groups = []
    # The call without arguments gives that of Gloo, and NCCL has one of its own.
    for backend, name in (("gloo", "_dump_fr_trace_json"), ("nccl", "_dump_nccl_trace_json")):
        is_used = any(backend in backends for _, backends, _ in known.values())
        if is_used and hasattr(core, name):
            groups += _groups_of(backend, json.loads(getattr(core, name)()), known, now)
    rank = distributed.get_rank() if distributed.is_initialized() else None
    return _record(rank, groups[:_MOST_GROUPS])


def _record(rank=None, groups=(), why: str = "") -> dict:  # noqa: ANN001 - as JSON has them
    return {"schema": _SCHEMA, "why": why[:_LONGEST_TEXT], "rank": rank, "groups": list(groups)}


def _known_groups(distributed) -> dict:  # noqa: ANN001 - a module
    """Return the process groups by their names: the description, the backends and the ranks.

    The recorder of Gloo does not tell the ranks, and neither of them tells of groups without calls.
    """
    world = distributed._world
    return {
        name: (
            getattr(group, "group_desc", ""),
            str(world.pg_backend_config[group]),
            list(world.pg_group_ranks[group]),
        )
        for group, name in list(world.pg_names.items())
        if group in world.pg_group_ranks  # which it is once it has been made
    }


def _groups_of(backend: str, record: dict, known: dict, now: int) -> list:
    """Return what a flight recorder says of each process group. Times are in nanoseconds."""
    groups = {
        name: {
            "backend": backend,
            "name": name[:_LONGEST_TEXT],
            "description": description[:_LONGEST_TEXT],
            "ranks": ranks,
            "open": [],
            "last": None,
        }
        for name, (description, backends, ranks) in known.items()
        if backend in backends
    }
    for entry in record.get("entries", []):
        group = groups.get(entry["process_group"][0])
        if group is None:  # it has been destroyed
            continue
        call = _call(entry, now)
        if not entry["is_p2p"]:
            group["last"] = call
        if not _has_ended(backend, entry) and len(group["open"]) < _MOST_CALLS:
            group["open"].append(call)
    return list(groups.values())


def _has_ended(backend: str, entry: dict) -> bool:
    # Gloo takes no times, and only notes that a call is over. With NCCL that means that nobody
    # looks at it any more.
    return entry["state"] == "completed" or (backend == "gloo" and entry["retired"])


def _call(entry: dict, now: int) -> dict:
    number = "p2p_seq_id" if entry["is_p2p"] else "collective_seq_id"
    return {
        "number": entry[number],
        "pointToPoint": entry["is_p2p"],
        "operation": entry["profiling_name"][:_LONGEST_TEXT],
        "state": entry["state"],
        "input": _tensors(entry["input_dtypes"], entry["input_sizes"]),
        "output": _tensors(entry["output_dtypes"], entry["output_sizes"]),
        "seconds": max(now - entry["time_created_ns"], 0) // 10**9,
    }


def _tensors(types: list, sizes: list) -> str:
    """Return, for example, "Float [8, 4], Long []"."""
    return ", ".join(f"{kind} {size}" for kind, size in zip(types, sizes))[:_LONGEST_TEXT]
