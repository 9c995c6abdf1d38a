# SPDX-License-Identifier: Apache-2.0
"""Has batchai_torch_calls started when the program makes its first process group of PyTorch.

Other programs get neither its thread nor its descriptors. The program needs no change: the import
of torch.distributed is seen, and its init_process_group() starts the thread before it does its own
work.
"""

# ruff: noqa: SIM105
# This file is short, and imports nothing else: it is compiled and run in each Python of the job.
import os
import sys

_MODULE = "torch.distributed.distributed_c10d"
_NEXT = "batchai_torch_calls"
_MARK = "calls_batchai_torch"


class _Finder:
    """Is asked by each import, and sees that of torch.distributed."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # noqa: ANN001, ANN205 - as the importer has it
        if name != _MODULE:
            return None
        for finder in list(sys.meta_path):
            # The importer itself passes over finders without it, which are of Python 2's form.
            find_spec = getattr(finder, "find_spec", None)
            if finder is _Finder or find_spec is None:
                continue
            spec = find_spec(name, path, target)
            if spec is not None:
                _call_after_import(spec.loader)
                return spec
        return None


def watch() -> None:
    """Start the thread when the program makes its first process group."""
    sys.meta_path.insert(0, _Finder)


def _call_after_import(loader) -> None:  # noqa: ANN001 - any loader
    load = getattr(loader, "exec_module", None)
    # It may have been looked for without being imported.
    if load is None or hasattr(load, _MARK):
        return
    own = getattr(loader, "__dict__", {}).get("exec_module")

    def exec_module(module) -> None:  # noqa: ANN001 - a module
        load(module)
        try:
            if own is None:
                del loader.exec_module
            else:
                loader.exec_module = own
            _wrap(module)
            sys.meta_path.remove(_Finder)
        except Exception:  # whatever it is, the job's program has to go on
            pass

    setattr(exec_module, _MARK, True)
    try:
        loader.exec_module = exec_module
    except (AttributeError, TypeError):
        pass  # not a loader of Python's own


def _wrap(module) -> None:  # noqa: ANN001 - a module
    import functools

    original = module.init_process_group

    @functools.wraps(original)
    def init_process_group(*args, **kwargs):  # noqa: ANN002, ANN003, ANN202 - as torch has it
        try:
            _load().begin()
        except Exception:  # whatever it is, the job's program has to go on
            pass
        return original(*args, **kwargs)

    module.init_process_group = init_process_group


def _load():  # noqa: ANN202 - a module
    """Import the module beside this one, which is not on sys.path."""
    if _NEXT not in sys.modules:
        from importlib import util

        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), _NEXT + ".py")
        spec = util.spec_from_file_location(_NEXT, path)
        sys.modules[_NEXT] = util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[_NEXT])
    return sys.modules[_NEXT]
