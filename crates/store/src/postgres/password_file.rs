//! Files of passwords as libpq reads them: `host:port:database:user:password`, a line each.

/// The password of the first line that fits; `*` fits everything, `\:` and `\\` are a colon and a backslash.
pub(super) fn find(text: &str, wanted: [&str; 4]) -> Option<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.map(fields).find_map(|fields| {
        let fits = fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        fields.get(4).filter(|_| fits).cloned()
    })
}

/// The five fields of a line. A password may hold colons.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '\\' => letters.next(),
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            other => Some(other),
        };
        if let (Some(letter), Some(field)) = (letter, fields.last_mut()) {
            field.push(letter);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let text = "# a comment\nshort:line\nh:5432:*:u:a\\\\b:c\n*:*:*:*:any\n";
        assert_eq!(find(text, ["h", "5432", "d", "u"]).as_deref(), Some("a\\b:c"));
        assert_eq!(find(text, ["h", "5433", "d", "u"]).as_deref(), Some("any"));
        assert_eq!(find("h:1:d:u:p", ["h", "2", "d", "u"]), None);
    }
}
