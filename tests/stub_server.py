"""Runs the server of `stub.py` from its compiled form: the tests start it by the hundred.

python -I -S stub_server.py [switches of stub.py]
"""

import os.path
import sys

sys.path.insert(0, os.path.dirname(__file__))

from stub import main

main()
