"""Torch building blocks for trainers: fused CPU layers, CUDA graphs, Adam and fused losses."""
