"""New plugin packages from templates."""
