//! What can be mended at the very place a rule complains about.
