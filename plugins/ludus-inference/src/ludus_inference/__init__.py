"""Inference runtimes of ludus: ``lean`` and ``compile``."""
