"""What every backend must offer: five protocols, and the values that they exchange."""
