"""`python -m mcpproxy.cli`: the command line without its console script."""

from mcpproxy.cli import main

main()
