# SPDX-License-Identifier: GPL-2.0-or-later
"""What an ordinary user and the admin do on the cluster with the GPU, and what must come of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import machine
from simulation import layout

_NAME = "gpu"
_TREE = Path(__file__).resolve().parent.parent.parent.parent
_MINICLUSTER = _TREE / "tests/cluster/minicluster"
_SHARE = "/home/alice/gpu"
# The product has limits of its own, of which the longest is that of a check of the GPUs.
_PATIENCE = 120


class WrongError(Exception):
    """Something did not do what it should; the text says what."""


class NotHereError(Exception):
    """A part cannot run on this machine; the text says why."""


class Site(NamedTuple):
    """What the parts need to know."""

    prefix: Path
    python: str
    image: Path
    gpus: list[str]  # device files; empty: the GPUs are pretended ones

    def call(
        self,
        *words: str,
        user: str = "alice",
        host: str = "login",
        text: str = "",
        accepted: tuple[int, ...] = (0,),
    ) -> str:
        """Runs a command on a host and returns both its outputs; WrongError if it fails."""
        done = subprocess.run(
            [sys.executable, _MINICLUSTER, "exec", "--name", _NAME, "--user", user]
            + ["--host", host, "--cwd", "/", "--", *words],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        print(f"$ {' '.join(words)}\n{done.stdout}", flush=True)
        if done.returncode not in accepted:
            raise WrongError(
                f"`{' '.join(words[:4])}` ended with {done.returncode}: {done.stdout[-900:]}"
            )
        return done.stdout

    def put(self, name: str, text: str) -> str:
        path = f"{_SHARE}/{name}"
        self.call("sh", "-c", 'mkdir -p "$(dirname "$1")" && cat > "$1"', "put", path, text=text)
        return path

    def batchai(self, *words: str) -> str:
        return self.call("batchai", *words[:2], "--only-show-errors", *words[2:])

    def ask(self, *words: str) -> Any:
        return json.loads(self.batchai(*words, "--output", "json"))

    def needs_torch(self) -> None:
        done = subprocess.run(
            [self.python, "-c", "import numpy, torch"], capture_output=True, check=False
        )
        if done.returncode != 0:
            raise NotHereError(f"{self.python} has no PyTorch, or no numpy")

    def train(self, name: str, ranks: int, seconds: int, **more: Any) -> None:
        """Submits a job of horovod.torch."""
        self.needs_torch()
        script = self.put("train.py", (Path(__file__).parent / "train.py").read_text())
        variables = {"OMP_NUM_THREADS": "1"}
        if "containerSettings" not in more:  # a container gets horovod.torch with the bundle
            variables["PYTHONPATH"] = f"{self.prefix}/lib/batchai/python"
        if not self.gpus:
            # The check before the ranks would say that there is no driver, and it is right.
            variables["BATCHAI_GPU_CHECK"] = "0"
        if machine.driver_directories():
            variables["LD_LIBRARY_PATH"] = ":".join(machine.driver_directories())
        properties = {
            "nodeCount": 1,
            "stdOutErrPathPrefix": f"{_SHARE}/logs",
            "environmentVariables": [{"name": k, "value": v} for k, v in variables.items()],
            "horovodSettings": {
                "pythonScriptFilePath": script,
                "commandLineArgs": str(seconds),
                "pythonInterpreterPath": self.python,
                "processCount": ranks,
            },
        } | more
        file = self.put(f"{name}.json", json.dumps({"properties": properties}))
        self.batchai("job", "create", "--name", name, "--config-file", file, "--", "--gpus=1")

    def trained(self, name: str, ranks: int) -> None:
        """Waits for the job, and looks at what its ranks have printed."""
        try:
            self.batchai("job", "wait", "--name", name)
        finally:
            logs = f"tail -n +1 $(find {_SHARE}/logs -path '*/{name}/*' -name '*.txt' -o"
            output = self.call("sh", "-c", f"{logs} -path '*/{name}/*' -name '*.log')")
        lines = set(re.findall(r"^rank \d+ of \d+ on .*replicas equal$", output, re.MULTILINE))
        if len(lines) != ranks:
            raise WrongError(f"{len(lines)} of {ranks} ranks have trained")
        device = "on cuda:0 (" if self.gpus else "on cpu ("
        if not all(device in line for line in lines):
            raise WrongError(f"not all ranks ran {device[:-2]}: {sorted(lines)}")
        if self.gpus and "GPUs of 1 of 1 nodes were checked" not in output:
            raise WrongError("the execution log says nothing of the check of the GPUs")


def _until(what: str, seconds: float, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise WrongError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.2)


def step_sees_the_gpu(site: Site) -> None:
    """A step of srun gets the GPU from Slurm."""
    output = site.call("srun", "--gpus=1", "sh", "-c", "echo visible=$CUDA_VISIBLE_DEVICES")
    if "visible=0" not in output:
        raise WrongError("CUDA_VISIBLE_DEVICES is not 0")


def one_rank(site: Site) -> None:
    """A job of one rank trains on it."""
    site.train("one", 1, 2)
    site.trained("one", 1)


def two_ranks_and_top(site: Site) -> None:
    """A job of two ranks trains, `job top` shows its use, and `job show` and the report keep it."""
    site.train("two", 2, 12)

    def shown() -> bool:
        state = site.ask("job", "show", "--name", "two", "--query", "executionState")
        if state not in ("queued", "running"):
            raise WrongError(f"the job is {state} before `job top` has shown its ranks")
        if state == "queued":
            return False
        nodes = site.ask("job", "top", "two", "--once")["nodes"]
        ranks = [rank for node in nodes for rank in node["ranks"]]
        gpus = [gpu for node in nodes for gpu in node["gpus"]]
        busy = [gpu for gpu in gpus if gpu["busyPercent"] and gpu["memoryBytes"] > 1e8]
        return len(ranks) == 2 and (bool(busy) or not site.gpus)

    _until("`job top` shows two ranks and what the GPU does", 60, shown)
    site.trained("two", 2)
    usage = site.ask("job", "show", "--name", "two", "--query", "usage")
    if usage["source"] != "samples":
        raise WrongError(f"`job show` knows no samples: {usage}")
    if site.gpus and not (usage["gpus"] == 1 and usage["gpuBusyPercent"] > 0):
        raise WrongError(f"`job show` does not know how busy the GPU was: {usage}")
    page = site.batchai("job", "report", "two", "--file", "-")
    if "<html" not in page or (site.gpus and "GPUs busy" not in page):
        raise WrongError("the report lacks the use of the GPU")


def check_before_the_ranks(site: Site) -> None:
    """The check of the GPUs before the ranks says what it finds, in one sentence."""
    if site.gpus:
        raise NotHereError("there is a driver; the other jobs have been checked")
    job = {
        "properties": {
            "nodeCount": 1,
            "stdOutErrPathPrefix": f"{_SHARE}/logs",
            "customToolkitSettings": {"commandLine": "echo must not run"},
        }
    }
    file = site.put("bare.json", json.dumps(job))
    site.batchai("job", "create", "--name", "bare", "--config-file", file, "--", "--gpus=1")
    _until(
        "the job has failed",
        60,
        lambda: site.ask("job", "show", "--name", "bare", "--query", "executionState") == "failed",
    )
    errors = site.ask("job", "show", "--name", "bare", "--query", "executionInfo.errors")
    if "libcuda.so.1" not in json.dumps(errors):
        raise WrongError(f"the error does not name the driver's library: {errors}")


def through_srun(site: Site) -> None:
    """`srun --job-json` starts the ranks with the file's settings."""
    site.needs_torch()
    command = [site.python, f"{_SHARE}/train.py", "1"]
    output = site.call("srun", "--gpus=1", f"--job-json={_SHARE}/two.json", *command)
    if len(re.findall(r"^rank [01] of 2 .*replicas equal$", output, re.MULTILINE)) != 2:
        raise WrongError("two ranks have not trained")


def _cdi(site: Site) -> dict[str, Any]:
    """What `nvidia-ctk cdi generate` would write, as far as these jobs need it."""
    devices = [
        {"name": str(number), "containerEdits": {"deviceNodes": [{"path": path}]}}
        for number, path in enumerate(site.gpus)
    ]
    shared = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
    edits: dict[str, Any] = {
        "deviceNodes": [{"path": path} for path in shared if Path(path).exists()]
    }
    libraries = [
        path
        for directory in machine.driver_directories()
        for path in sorted(Path(directory).glob("lib*.so*"))
    ]
    edits["mounts"] = [
        {"hostPath": str(path), "containerPath": str(path), "options": ["ro", "bind"]}
        for path in libraries
    ]
    return {
        "cdiVersion": "0.6.0",
        "kind": "nvidia.com/gpu",
        "devices": devices,
        "containerEdits": edits,
    }


def in_a_container(site: Site) -> None:
    """A container whose image is the machine's own root has the GPU of the job, from a CDI file."""
    site.needs_torch()
    script = "mkdir -p /etc/cdi && cat > /etc/cdi/nvidia.json"
    if site.gpus:
        site.call("sh", "-c", script, user="root", host="h1", text=json.dumps(_cdi(site), indent=1))
    image = {"imageSourceRegistry": {"image": str(site.image)}}
    site.train("contained", 2, 2, containerSettings=image)
    site.trained("contained", 2)


def admin_check(site: Site) -> None:
    """`admin check --cluster` finds nothing wrong."""
    # There are warnings, such as that /tmp is in memory.
    output = site.call("batchai", "admin", "check", "--cluster", "--json", accepted=(0, 1, 2))
    report = json.loads(output[output.index("{") :])
    wrong = [check for check in report["checks"] if check["severity"] == "error"]
    if wrong:
        raise WrongError(json.dumps(wrong))


_PARTS = (
    step_sees_the_gpu,
    one_rank,
    two_ranks_and_top,
    check_before_the_ranks,
    through_srun,
    in_a_container,
    admin_check,
)


class _Tee:
    """Results go to the terminal and to a file; what commands print, only to the log."""

    def __init__(self, terminal: TextIO, file: TextIO) -> None:
        self._outputs = (terminal, file)

    def say(self, line: str) -> None:
        for output in self._outputs:
            print(line, file=output, flush=True)


def _run_parts(site: Site, tee: _Tee) -> Iterator[str]:
    """Runs each part and gives PASSED, FAILED or NOT RUN for it."""
    for part in _PARTS:
        begin = time.monotonic()
        what = (part.__doc__ or "").strip()
        try:
            part(site)
            outcome, reason = "PASSED", ""
        except NotHereError as error:
            outcome, reason = "NOT RUN", f": {error}"
        except (WrongError, subprocess.TimeoutExpired) as error:
            outcome, reason = "FAILED", f": {error}"
        except Exception as error:  # an answer of another form, for example
            traceback.print_exc()
            outcome, reason = "FAILED", f": {type(error).__name__}: {error}"
        if outcome == "FAILED":  # its job may still have the GPU
            subprocess.run(
                [sys.executable, _MINICLUSTER, "exec", "--name", _NAME, "scancel", "--user=alice"],
                check=False,
            )
        tee.say(f"{outcome} [{time.monotonic() - begin:5.1f} s] {what}{reason}")
        yield outcome


def _minicluster(*words: str) -> None:
    subprocess.run([sys.executable, _MINICLUSTER, *words, "--name", _NAME], check=True)


def _keep_logs(out: Path) -> None:
    with tarfile.open(out / "logs.tar.gz", "w:gz") as logs:
        logs.add(out / "commands.log", "commands.log")
        for path in layout.Cluster(_NAME).logs.glob("*.log"):
            logs.add(path, f"cluster/{path.name}")
    (out / "commands.log").unlink()


def _directory_of(python: str) -> str:
    """The directory of its packages and programs, without links."""
    script = "import os, sys; print(os.path.realpath(sys.prefix))"
    return subprocess.run(
        [python, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


def run(prefix: Path, python: str, image: Path, out: Path) -> int:
    """Runs everything; returns the exit status."""
    directory = _directory_of(python)
    python = f"{directory}/bin/{Path(python).name}"
    gpus = sorted(str(path) for path in Path("/dev").glob("nvidia[0-9]*"))[:1]
    site = Site(prefix, python, image, gpus)
    terminal = os.fdopen(os.dup(1), "w")
    outcomes: list[str] = []
    with (out / "results.txt").open("w") as results, (out / "commands.log").open("w") as log:
        os.dup2(log.fileno(), 1)
        tee = _Tee(terminal, results)
        tee.say(f"GPUs: {' '.join(gpus) or 'none, so they are pretended'}")
        try:
            which = ["--gpu-devices", ",".join(gpus)] if gpus else ["--gpus", "1"]
            _minicluster("up", "--nodes", "1", "--prefix", str(prefix), *which)
            if not directory.startswith("/usr"):  # it may be mounted, and then an image lacks it
                (layout.Cluster(_NAME).etc / "batchai/site.lua").write_text(
                    f'return {{ container_binds = {{"{directory}:{directory}:ro"}} }}\n'
                )
            outcomes += _run_parts(site, tee)
        except subprocess.CalledProcessError:
            tee.say("FAILED: the cluster has not started")
        finally:
            sys.stdout.flush()
            _keep_logs(out)
    if not outcomes:
        return 4
    if "FAILED" in outcomes:
        return 1
    if not gpus:
        print("no GPU: only what needs none has run", file=terminal)
        return 77
    # The check of a machine without a driver never runs beside one.
    not_run = outcomes.count("NOT RUN") - 1
    return 3 if not_run else 0
