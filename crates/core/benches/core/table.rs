//! Tables for people: the first column to the left, figures to the right, a mark where there is a target.

use std::time::Duration;

/// Prints a table in columns as wide as their widest cell.
pub(crate) fn print(title: &str, header: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(header.get(column).map(|cell| cell.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let print_row = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells
            .zip(&widths)
            .enumerate()
            .map(
                |(column, (cell, &width))| {
                    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        println!("  {}", cells.join("  ").trim_end());
    };
    println!("\n{title}\n");
    print_row(&mut header.iter().copied());
    let rule: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
    print_row(&mut rule.iter().map(String::as_str));
    for row in rows {
        print_row(&mut row.iter().map(String::as_str));
    }
}

/// A line of explanation under a table.
pub(crate) fn note(text: &str) {
    println!("  · {text}");
}

/// Three digits and a unit.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (value, unit) = match seconds {
        s if s < 1e-6 => (s * 1e9, "ns"),
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s if s < 120.0 => (s, "s"),
        s => (s / 60.0, "min"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// Megabytes a second.
pub(crate) fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

/// Bytes as megabytes.
pub(crate) fn megabytes(bytes: usize) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}

/// A figure, and whether it meets the target its column states.
pub(crate) fn against(figure: &str, met: bool) -> String {
    format!("{figure} {}", if met { "✓" } else { "✗" }).trim_start().to_string()
}
