"""`python -m epsaudit` is the command `epsaudit`."""

import sys

from epsaudit.cli.main import main

sys.exit(main())
