//! Store
