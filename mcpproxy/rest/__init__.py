"""REST under `/api/v1`: one module an area, each a table of routes over verbs of the daemon."""
