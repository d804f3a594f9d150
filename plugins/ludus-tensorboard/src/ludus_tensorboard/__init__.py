"""TensorBoard metric sink of ludus."""
