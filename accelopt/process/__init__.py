"""Helper processes and what they give up: shared by backends, which never see each other."""
