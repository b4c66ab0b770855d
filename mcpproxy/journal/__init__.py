"""What happened, so that one can tell afterwards exactly what an agent did: written, kept and read."""
