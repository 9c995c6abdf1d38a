# SPDX-License-Identifier: Apache-2.0
"""What horovod.keras and horovod.tensorflow share; imports neither of them."""
