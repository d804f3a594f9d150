"""Two-player Atari games of PettingZoo, played from the console's memory or from images."""
