//! What the store promises against faults, damage and other programs: a test for each promise, named after it.

mod backup;
mod damage;
mod erased;
mod faults;
mod files;
mod linear;
mod pooler;
mod secured;
mod settings;
mod texts;
