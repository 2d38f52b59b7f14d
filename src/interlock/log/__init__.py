"""The log: facts, their encoding, the Merkle tree over them, and signed notes. Pure functions."""
