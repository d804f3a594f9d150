"""PettingZoo environments in ludus, and ludus environments in PettingZoo."""
