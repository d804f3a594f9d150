"""The fake equipment of heroes."""


def get_default_hero_config():
    """Return the equipment by number of a hero."""
    return {112: {"hero_id": 112, "skill_id": 80115, "symbol": [1512]}}
