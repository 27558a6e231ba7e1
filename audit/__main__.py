"""`python -m epsaudit` is the command `epsaudit`."""

import sys

from epsaudit.cli import main

sys.exit(main())
