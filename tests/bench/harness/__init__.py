# SPDX-License-Identifier: GPL-2.0-or-later
"""What the benchmarks that need a cluster of hosts share."""
