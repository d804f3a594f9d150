"""Network plugins of ludus: ``mlp`` and ``conv``."""
