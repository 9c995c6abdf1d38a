# SPDX-License-Identifier: Apache-2.0
"""A horovod that is installed beside this one, for a container whose image brings its own.

The node's packages are mounted in a container and come before the image's in the search path. A
program that was made for the image's horovod keeps it. The image's Python may be older than what
the rest of these packages need, so this file keeps to what Python 3.6 reads.
"""

import importlib.machinery
import importlib.util
import os
import sys
from typing import Optional

# Where the node's packages are in a container: this directory, and its manifest.
_PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(_PACKAGES)))
_MANIFEST = os.path.join(_ROOT, "manifest.json")


def find() -> Optional[importlib.machinery.ModuleSpec]:
    """The image's horovod, if these are the node's packages and the job has not asked for them."""
    if os.environ.get("BATCHAI_INJECT") == "1" or not os.path.exists(_MANIFEST):
        return None
    here = os.path.realpath(_PACKAGES)
    others = [path for path in sys.path if os.path.realpath(path or os.curdir) != here]
    spec = importlib.machinery.PathFinder.find_spec("horovod", others)
    if spec is None or spec.origin is None:
        return None
    # A horovod of ours that the image has goes with its mpi_bridge, which these packages hide.
    beside = os.path.join(os.path.dirname(os.path.dirname(spec.origin)), "mpi_bridge")
    return None if os.path.isdir(beside) else spec


def load(spec: importlib.machinery.ModuleSpec) -> None:
    """Puts that horovod in the place of this one, and says so on the first rank."""
    ranks = [os.environ[name] for name in ("RANK", "PMIX_RANK", "PMI_RANK") if name in os.environ]
    if not ranks or ranks[0] == "0":
        print(
            "batchai: the image's own horovod is used, "
            + str(spec.origin)
            + "; BATCHAI_INJECT=1 among the job's environmentVariables takes the node's",
            file=sys.stderr,
        )
    module = importlib.util.module_from_spec(spec)
    # The import system returns what is here when this package has been executed.
    sys.modules["horovod"] = module
    del sys.modules[__name__]
    spec.loader.exec_module(module)
