"""Two-player Pong, batched in numpy, with vector and image observations and scripted opponents."""
