"""Small programs that change something between two calls; each module registers those of one or two families."""
