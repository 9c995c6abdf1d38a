# SPDX-License-Identifier: Apache-2.0
"""Arms `batchai job stacks` in each Python of a job, and then makes room for itself.

Any Python may come here, so nothing in this file may need a new one. Afterwards the directory is no
longer on sys.path, and the sitecustomize that Python would have found without it has been run.
"""

import os
import sys

_own = os.path.dirname(os.path.abspath(__file__))

if sys.version_info >= (3, 8):  # noqa: UP036
    try:
        import batchai_stacks

        batchai_stacks.arm()
        if batchai_stacks.is_armed():
            import batchai_torch

            batchai_torch.watch()
    except Exception:  # the program of the job has to start whatever happens here
        pass

sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _own]
_module = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # noqa: F401
except ImportError as error:
    if getattr(error, "name", "sitecustomize") != "sitecustomize":
        raise
    if _module is not None:
        sys.modules["sitecustomize"] = _module
