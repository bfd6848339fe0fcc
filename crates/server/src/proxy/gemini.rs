//! Paths of Gemini, in which the model and what is asked of it stand together: `models/gemini-2.5-pro:generateContent`.

use axum::http::Uri;

use super::client_request::{Endpoint, ReplyShape, RequestTarget};

/// The methods that are understood.
const METHODS: [(&str, Endpoint); 3] = [
    ("generateContent", Endpoint::Generate),
    ("streamGenerateContent", Endpoint::StreamGenerate),
    ("countTokens", Endpoint::CountContents),
];

/// What a request asks for, given its version and the path and query below it; none where it is passed on as it is.
pub(super) fn target(version: &str, uri: &Uri) -> Option<RequestTarget> {
    let path = uri.path().strip_prefix('/')?;
    let (named, method) = path.rsplit_once(':')?;
    let (_, endpoint) = METHODS.iter().find(|(known, _)| *known == method)?;
    let (collection, model) = named.split_once('/')?;
    if !["models", "tunedModels"].contains(&collection) || model.is_empty() || model.contains('/') {
        return None;
    }
    let query = uri.query();
    let in_events = query.is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
    let shape = match (endpoint, in_events) {
        (Endpoint::StreamGenerate, true) => ReplyShape::Events,
        (Endpoint::StreamGenerate, false) => ReplyShape::List,
        _ => ReplyShape::Whole,
    };
    Some(RequestTarget {
        endpoint: *endpoint,
        path: below(version, uri),
        model: Some(model.into()),
        shape: Some(shape),
    })
}

/// The path and query below the base URL: Gemini's clients choose the version.
pub(super) fn below(version: &str, uri: &Uri) -> String {
    let path = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    format!("{version}/{}", path.strip_prefix('/').unwrap_or(&path))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_model_and_the_method_are_read_from_the_path() {
        let read = |path: &str| {
            let target = target("v1beta", &path.parse().unwrap())?;
            Some((target.endpoint, target.model.unwrap(), target.shape.unwrap(), target.path))
        };
        let whole = |endpoint, shape, path: &str| {
            Some((endpoint, "gemini-2.5-pro".to_string(), shape, path.to_string()))
        };
        assert_eq!(
            read("/models/gemini-2.5-pro:generateContent"),
            whole(Endpoint::Generate, ReplyShape::Whole, "v1beta/models/gemini-2.5-pro:generateContent")
        );
        assert_eq!(
            read("/models/gemini-2.5-pro:streamGenerateContent?alt=sse&x=1"),
            whole(
                Endpoint::StreamGenerate,
                ReplyShape::Events,
                "v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse&x=1"
            )
        );
        assert_eq!(
            read("/models/gemini-2.5-pro:streamGenerateContent").map(|read| read.2),
            Some(ReplyShape::List)
        );
        assert_eq!(read("/tunedModels/mine:countTokens").map(|read| read.0), Some(Endpoint::CountContents));
        for other in [
            "/models",
            "/models/gemini-2.5-pro",
            "/models/text-embedding-004:embedContent",
            "/models/:generateContent",
            "/files/a:generateContent",
            "/openai/chat/completions",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
