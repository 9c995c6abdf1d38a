# SPDX-License-Identifier: GPL-2.0-or-later
"""Allreduce of mpi_bridge beside other libraries: cases, running them, and what to show of it."""
