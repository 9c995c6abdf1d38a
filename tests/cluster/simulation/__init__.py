# SPDX-License-Identifier: GPL-2.0-or-later
"""A multi-host Slurm cluster simulated on one machine."""
