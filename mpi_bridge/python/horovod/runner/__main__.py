# SPDX-License-Identifier: Apache-2.0
"""`python -m horovod.runner`, for systems where the command is not on the PATH."""

import sys

from .launch import main

sys.exit(main())
