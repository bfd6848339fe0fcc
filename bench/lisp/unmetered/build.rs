//! Turns counting off. No feature does: one that any crate of a build could turn on would turn the limits off for all.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(scrollback_unmetered)");
    println!("cargo::rustc-cfg=scrollback_unmetered");
}
