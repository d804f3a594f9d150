"""Loading plugins and wrapping their errors."""
