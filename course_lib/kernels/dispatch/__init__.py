"""Which implementation of an op runs where: per platform, per mesh, and in derivatives."""
