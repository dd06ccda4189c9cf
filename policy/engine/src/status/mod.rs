//! What people may see, as values: built from the engine when asked for.
