"""Proximal policy optimisation: dual clip, several action labels, critics with privileged inputs."""
