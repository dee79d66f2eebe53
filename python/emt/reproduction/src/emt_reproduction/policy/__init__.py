"""The parts of the paper's path from samples to moves that tierwise.emt does not use."""
