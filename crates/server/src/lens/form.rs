//! What forms send: pairs of names and values, or a file.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};

use scrollback_agent::config::ServerLimits;
use scrollback_store::Tenant;

use super::viewer::Viewer;
use crate::memory::Share;
use crate::{App, HttpProblem};

/// Bytes of a form that are read before it is known who sent it: a key, and where to go with it.
const OF_STRANGERS: usize = 8 << 10;

/// The fields of a form.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FormFields(Vec<Field>);

#[derive(Debug, PartialEq, Eq)]
struct Field {
    name: String,
    file: Option<String>,
    value: Bytes,
}

impl FormFields {
    /// Reads the body of a posted form, of either kind that browsers send.
    pub(crate) async fn read(viewer: &Viewer, headers: &HeaderMap, body: Body) -> Result<Self, HttpProblem> {
        let mut share = viewer.app.memory.share(&viewer.caller.tenant);
        FormFields::within(&viewer.app.settings.limits, &mut share, headers, body).await
    }

    /// The same of a caller who is not known yet, and may hold almost nothing.
    pub(crate) async fn of_stranger(app: &App, headers: &HeaderMap, body: Body) -> Result<Self, HttpProblem> {
        let limits = ServerLimits { body_bytes: OF_STRANGERS, ..app.settings.limits };
        let mut share = app.memory.share(&Tenant::default());
        FormFields::within(&limits, &mut share, headers, body).await
    }

    async fn within(
        limits: &ServerLimits,
        share: &mut Share,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Self, HttpProblem> {
        let bytes = crate::body::read(body, headers, limits, share).await?;
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        let bad = || HttpProblem::bad_request("bad_form", "this is not what a form sends");
        match kind.split(';').next().unwrap_or("").trim() {
            "application/x-www-form-urlencoded" => {
                let pairs: Vec<(String, String)> =
                    axum::extract::Query::try_from_uri(&uri(&bytes).ok_or_else(bad)?)
                        .map(|query| query.0)
                        .map_err(|_| bad())?;
                let field = |(name, value): (String, String)| Field { name, file: None, value: value.into() };
                Ok(FormFields(pairs.into_iter().map(field).collect()))
            }
            "multipart/form-data" => {
                let boundary = kind.split(';').find_map(|part| part.trim().strip_prefix("boundary="));
                parts(&bytes, boundary.map(|text| text.trim_matches('"')).ok_or_else(bad)?)
                    .map(FormFields)
                    .ok_or_else(bad)
            }
            _ => Err(bad()),
        }
    }

    /// The text of a field; empty if it is not there.
    pub(crate) fn text(&self, name: &str) -> String {
        let found = self.0.iter().find(|field| field.name == name && field.file.is_none());
        found.map_or_else(String::new, |field| String::from_utf8_lossy(&field.value).into_owned())
    }

    /// The files that were chosen: their names and their bytes.
    pub(crate) fn files<'f>(&'f self, name: &'f str) -> impl Iterator<Item = (&'f str, &'f Bytes)> {
        let named = self.0.iter().filter(move |field| field.name == name);
        named.filter_map(|field| {
            let file = field.file.as_deref().filter(|file| !file.is_empty() || !field.value.is_empty())?;
            Some((file, &field.value))
        })
    }
}

/// Pairs are read the way queries are.
fn uri(bytes: &[u8]) -> Option<axum::http::Uri> {
    let text = std::str::from_utf8(bytes).ok()?;
    format!("/?{text}").parse().ok()
}

/// The parts of a `multipart/form-data` body; none if it is not one.
fn parts(body: &Bytes, boundary: &str) -> Option<Vec<Field>> {
    if boundary.is_empty() || boundary.len() > 70 {
        return None;
    }
    let (opening, between) = (format!("--{boundary}"), format!("\r\n--{boundary}"));
    let mut at = find(body, opening.as_bytes(), 0)? + opening.len();
    let mut fields = Vec::new();
    loop {
        if body.get(at..at + 2)? == b"--" {
            return Some(fields);
        }
        let start = at + 2;
        let head_end = find(body, b"\r\n\r\n", start)?;
        let head = std::str::from_utf8(body.get(start..head_end)?).ok()?;
        let end = find(body, between.as_bytes(), head_end + 2)?;
        let line =
            head.split("\r\n").find(|line| line.to_ascii_lowercase().starts_with("content-disposition:"))?;
        // Browsers quote every value and never leave a quote inside one.
        let of = |key: &str| {
            let (_, rest) = line.split_once(&format!("; {key}=\""))?;
            rest.split_once('"').map(|(value, _)| value.to_string())
        };
        fields.push(Field {
            name: of("name")?,
            file: of("filename"),
            value: body.slice(head_end + 4..end.max(head_end + 4)),
        });
        at = end + between.len();
    }
}

fn find(body: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let rest = body.get(from..)?;
    rest.windows(what.len()).position(|window| window == what).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_and_fields_are_told_apart() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"format\"\r\n\r\n\r\n--x\r\n\
                    Content-Disposition: form-data; name=\"file\"; filename=\"a;b.jsonl\"\r\nContent-Type: text/plain\r\n\r\n\
                    {\"a\":1}\r\n--no\r\n\r\n--x--\r\n";
        let fields = FormFields(parts(&Bytes::from(body), "x").unwrap());
        assert_eq!(fields.text("format"), "");
        let (_, bytes) = fields.files("file").next().unwrap();
        assert_eq!(bytes.as_ref(), b"{\"a\":1}\r\n--no\r\n");
        assert_eq!(fields.files("format").count(), 0);
    }

    #[test]
    fn what_is_no_form_is_none() {
        for body in ["", "--x", "--x\r\n", "--x\r\nnonsense\r\n\r\n--x--", "--y\r\n\r\n"] {
            assert_eq!(parts(&Bytes::from(body), "x"), None, "{body:?}");
        }
        assert_eq!(parts(&Bytes::from("--x--"), "x").map(|fields| fields.len()), Some(0));
        assert_eq!(parts(&Bytes::from("--"), ""), None);
    }
}
