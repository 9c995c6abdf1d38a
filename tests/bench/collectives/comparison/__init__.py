# SPDX-License-Identifier: GPL-2.0-or-later
"""Collectives of mpi_bridge beside other libraries: cases, running them, and what to show of it."""
