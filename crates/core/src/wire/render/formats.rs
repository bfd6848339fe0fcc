//! Which files the providers take, by MIME type, and what they call them.

/// Documents and the endings of their names.
const DOCUMENTS: [(&str, &str); 9] = [
    ("application/pdf", "pdf"),
    ("text/plain", "txt"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("application/msword", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
];

/// The type without its parameters.
fn essence(mime: &str) -> &str {
    mime.split(';').next().unwrap_or_default().trim()
}

/// Whether the bytes are readable text.
pub(super) fn is_text(mime: &str) -> bool {
    essence(mime).starts_with("text/")
}

pub(super) fn is_pdf(mime: &str) -> bool {
    essence(mime) == "application/pdf"
}

/// The ending of a document's name, which is also what Converse calls its format; none if no provider takes such files.
pub(super) fn document(mime: &str) -> Option<&'static str> {
    let known = DOCUMENTS.iter().find(|(known, _)| *known == essence(mime)).map(|(_, ending)| *ending);
    known.or_else(|| is_text(mime).then_some("txt"))
}

/// The four kinds of images that every provider takes.
pub(super) fn image(mime: &str) -> Option<&'static str> {
    match essence(mime) {
        "image/png" => Some("png"),
        "image/jpeg" | "image/jpg" => Some("jpeg"),
        "image/gif" => Some("gif"),
        "image/webp" => Some("webp"),
        _ => None,
    }
}

/// The two kinds of sound that Chat Completions takes.
pub(super) fn audio(mime: &str) -> Option<&'static str> {
    match essence(mime) {
        "audio/wav" | "audio/x-wav" | "audio/wave" => Some("wav"),
        "audio/mp3" | "audio/mpeg" => Some("mp3"),
        _ => None,
    }
}

/// What Converse calls a kind of video.
pub(super) fn video(mime: &str) -> Option<&'static str> {
    match essence(mime) {
        "video/mp4" => Some("mp4"),
        "video/quicktime" | "video/mov" => Some("mov"),
        "video/x-matroska" | "video/mkv" => Some("mkv"),
        "video/webm" => Some("webm"),
        "video/x-flv" | "video/flv" => Some("flv"),
        "video/mpeg" => Some("mpeg"),
        "video/mpg" => Some("mpg"),
        "video/x-ms-wmv" | "video/wmv" => Some("wmv"),
        "video/3gpp" => Some("three_gp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_with_parameters_and_by_their_old_names() {
        assert_eq!(document("text/plain; charset=utf-8"), Some("txt"));
        assert_eq!(document("text/x-python"), Some("txt"));
        assert_eq!(document("application/zip"), None);
        assert_eq!(image("image/jpg"), Some("jpeg"));
        assert_eq!(image("image/heic"), None);
        assert_eq!(audio("audio/mpeg"), Some("mp3"));
        assert_eq!(audio("audio/ogg"), None);
        assert_eq!(video("video/quicktime"), Some("mov"));
    }
}
