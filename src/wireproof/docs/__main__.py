"""`python -m wireproof.docs [FOLDER]` brings the generated pages up to date."""

import sys

from wireproof.docs.pages import main

sys.exit(main(sys.argv[1:]))
