# SPDX-License-Identifier: Apache-2.0
"""horovodrun: starts ranks with srun, inside of an allocation."""
