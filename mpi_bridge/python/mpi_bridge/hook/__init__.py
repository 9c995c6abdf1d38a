# SPDX-License-Identifier: Apache-2.0
"""What Python does at its start in each rank, if this directory comes first on PYTHONPATH."""
