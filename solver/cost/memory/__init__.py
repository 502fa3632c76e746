"""Memory of one GPU: what is kept, states, and the peak over the phases of a step."""
