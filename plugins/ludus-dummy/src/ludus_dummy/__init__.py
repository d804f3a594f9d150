"""Every kind of ludus component in its smallest real form: two games, a learner, a matchmaker and the rest."""
