"""Model folders by name: `known` recipes, `hub` and `wheel` for the files, `making` for the whole.

`placing` puts it where it belongs, or nothing.
"""
