"""Proximal policy optimization: dual clip, several action labels, critics with privileged inputs."""
