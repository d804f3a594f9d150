"""A web server that shows runs of ludus while they go on."""
