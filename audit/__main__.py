"""`python -m epsaudit` is the command `epsaudit`."""

import sys

from epsaudit.tools.start import main

sys.exit(main())
