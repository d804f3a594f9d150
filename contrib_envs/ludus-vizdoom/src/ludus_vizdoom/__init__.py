"""Doom by ViZDoom: scenarios of one player, and deathmatches of several players and bots [Arena §A.5]."""
