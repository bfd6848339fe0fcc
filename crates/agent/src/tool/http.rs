//! Tools that are HTTP requests.

use reqwest::header::HeaderMap;
use reqwest::{Client, Method};
use serde_json::{Map, Value};

use super::command::fill_with;
use super::output::OutputEnds;
use super::{Call, Spec, Tool, ToolOutcome, ToolOutput};
use crate::effects::BoxFuture;
use crate::net::{Follow, client, headers, innermost, safe_url, within};

/// A request with places for arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCall {
    /// The method.
    pub method: String,
    /// The URL; `{name}` stands for an argument, percent-encoded.
    pub url: String,
    /// Headers, their values ready to be sent.
    pub headers: Vec<(String, String)>,
}

/// A tool that sends a request. Arguments that the URL does not name are its JSON body, unless it is a GET.
pub struct HttpTool {
    spec: Spec,
    client: Client,
    method: Method,
    url: String,
    headers: HeaderMap,
}

impl HttpTool {
    /// A tool of a request; what is wrong with it otherwise.
    pub fn new(spec: Spec, call: &HttpCall) -> Result<Self, String> {
        let method = Method::from_bytes(call.method.as_bytes())
            .map_err(|_| format!("{:?} is not an HTTP method", call.method))?;
        let url = safe_url(&call.url.replace(['{', '}'], ""))?;
        if call.url.split('/').nth(2).is_some_and(|host| host.contains('{')) {
            return Err("arguments must not decide the host".into());
        }
        let headers = headers(&call.headers)?;
        let client = client(within(&url, Follow::All)).map_err(|error| error.to_string())?;
        Ok(HttpTool { spec, client, method, url: call.url.clone(), headers })
    }

    async fn run(&self, call: Call) -> ToolOutcome {
        let url = fill_with(&self.url, &call.arguments, |value| percent_encoded(&value));
        if leaves_its_path(&url) {
            let message = "`.` and `..` are not allowed as parts of the path";
            return ToolOutcome::Failed(message.into());
        }
        let body: Map<String, Value> = call
            .arguments
            .into_iter()
            .filter(|(name, _)| !self.url.contains(&format!("{{{name}}}")))
            .collect();
        let mut request = self.client.request(self.method.clone(), url).headers(self.headers.clone());
        if self.method != Method::GET && self.method != Method::HEAD {
            request = request
                .header(reqwest::header::CONTENT_TYPE, "application/json")
                .body(Value::Object(body).to_string());
        }
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return ToolOutcome::Failed(format!("the request failed: {}", innermost(&error))),
        };
        let mut kept = OutputEnds::new(self.spec.max_output);
        loop {
            match response.chunk().await {
                Ok(Some(bytes)) => kept.take(&bytes),
                Ok(None) => break,
                Err(error) => {
                    return ToolOutcome::Failed(format!("the answer broke off: {}", innermost(&error)));
                }
            }
        }
        let status = response.status();
        let text = kept.into_text();
        if status.as_u16() >= 400 {
            return ToolOutcome::Failed(format!("status {}: {text}", status.as_u16()));
        }
        ToolOutcome::Done(ToolOutput::Text(text))
    }
}

impl Tool for HttpTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, call: Call) -> BoxFuture<'_, ToolOutcome> {
        Box::pin(self.run(call))
    }
}

/// Whether the path of a URL has a part that steps out of it, however that is spelled: servers decode before they resolve.
fn leaves_its_path(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    let mut decoded = path.as_bytes().to_vec();
    // Twice, because some servers do so too.
    for _ in 0..2 {
        decoded = percent_decoded(&decoded);
    }
    decoded.split(|byte| matches!(byte, b'/' | b'\\')).any(|part| matches!(part, b"." | b".."))
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let pair = if *byte == b'%' { digit(text.get(at + 1)).zip(digit(text.get(at + 2))) } else { None };
        if let Some((high, low)) = pair {
            out.push((high * 16 + low) as u8);
            at += 3;
        } else {
            out.push(*byte);
            at += 1;
        }
    }
    out
}

/// A text as it may stand in any part of a URL.
fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_argument_leads_out_of_the_path() {
        let at = |id: &str| format!("https://api.example/v1/users/{}/notes?x=..", percent_encoded(id));
        for id in ["..", ".", "a/../b", "../admin", "..\\admin", "%2e%2e", "%2e%2e%2fadmin", "a/./b"] {
            assert!(leaves_its_path(&at(id)), "{id}");
        }
        for id in ["anna", "..a", "a..", "a.b", "...", "50%", "%zz", ""] {
            assert!(!leaves_its_path(&at(id)), "{id}");
        }
        assert!(!leaves_its_path("https://api.example"));
    }
}
