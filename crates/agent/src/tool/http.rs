//! Tools that are HTTP requests.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Url};
use serde_json::{Map, Value};

use super::command::fill_with;
use super::output::Kept;
use super::{Call, Outcome, Output, Spec, Tool};
use crate::effects::Pending;
use crate::net::{client, innermost, is_local};

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

/// How often a request may be sent on; more is a circle.
const REDIRECTS: usize = 5;

impl HttpTool {
    /// A tool of a request; what is wrong with it otherwise.
    pub fn new(spec: Spec, call: &HttpCall) -> Result<Self, String> {
        let method = Method::from_bytes(call.method.as_bytes())
            .map_err(|_| format!("{:?} is no HTTP method", call.method))?;
        let url = Url::parse(&call.url.replace(['{', '}'], "")).map_err(|error| error.to_string())?;
        if url.scheme() != "https" && !(url.scheme() == "http" && is_local(&url)) {
            return Err("must be https, unless it is on this machine".into());
        }
        if call.url.split('/').nth(2).is_some_and(|host| host.contains('{')) {
            return Err("arguments must not decide the host".into());
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &call.headers {
            let name =
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is no header"))?;
            let mut value =
                HeaderValue::from_str(value).map_err(|_| format!("the value of {name} is no header"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let home = url.host_str().map(str::to_string);
        let redirects = reqwest::redirect::Policy::custom(move |attempt| {
            if attempt.url().host_str() != home.as_deref() {
                attempt.error("a redirect to another host")
            } else if attempt.previous().len() > REDIRECTS {
                attempt.error("too many redirects")
            } else {
                attempt.follow()
            }
        });
        let client = client(redirects).map_err(|error| error.to_string())?;
        Ok(HttpTool { spec, client, method, url: call.url.clone(), headers })
    }

    async fn run(&self, call: Call) -> Outcome {
        let url = fill_with(&self.url, &call.arguments, |value| percent_encoded(&value));
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
            Err(error) => return Outcome::Failed(format!("the request failed: {}", innermost(&error))),
        };
        let mut kept = Kept::new(self.spec.max_output);
        loop {
            match response.chunk().await {
                Ok(Some(bytes)) => kept.take(&bytes),
                Ok(None) => break,
                Err(error) => return Outcome::Failed(format!("the answer broke off: {}", innermost(&error))),
            }
        }
        let status = response.status();
        let text = kept.into_text();
        if status.as_u16() >= 400 {
            return Outcome::Failed(format!("status {}: {text}", status.as_u16()));
        }
        Outcome::Done(Output::Text(text))
    }
}

impl Tool for HttpTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, call: Call) -> Pending<'_, Outcome> {
        Box::pin(self.run(call))
    }
}

/// A text as it may stand in any part of a URL.
fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
