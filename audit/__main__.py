"""`python -m epsaudit` is the command `epsaudit`."""

import sys

from epsaudit.tools.cli.main import main

sys.exit(main())
