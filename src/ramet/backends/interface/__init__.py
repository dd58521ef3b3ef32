"""What every backend must offer: its protocols, and the values that they exchange."""
