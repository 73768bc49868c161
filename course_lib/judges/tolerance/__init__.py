"""How far a right result may be from its reference."""
