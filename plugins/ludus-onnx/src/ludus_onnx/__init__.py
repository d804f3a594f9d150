"""Models of ludus as ONNX files: the command ``ludus export``."""
