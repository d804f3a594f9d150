"""Gymnasium environments in ludus."""
