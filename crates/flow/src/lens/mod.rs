//! Runs as people look at them.
