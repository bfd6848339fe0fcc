//! Where requests go is configuration: nothing that a client sends chooses another place. Another server listens on a port of
//! its own, every attempt names it, and it must never be called.

use std::io::{Read, Write};
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::client::{connect, request, send};
use crate::process::{Server, Setup};
use crate::upstream::{Says, Upstream, completion, completion_body, message, response};

/// The provider's key, which the other server must not get.
const KEY: &str = "sk-configured-0123456789abcdef";

/// Every byte of a text as addresses write what may not stand in them.
fn percent_coded(text: &str) -> String {
    text.bytes().fold(String::new(), |coded, byte| coded + &format!("%{byte:02X}"))
}

/// Spellings of a place, from the plain one to those that one reader takes for another.
fn spellings(place: SocketAddr) -> Vec<String> {
    let (ip, port) = (place.ip(), place.port());
    let coded = percent_coded(&ip.to_string());
    vec![
        format!("http://{place}/v1"),
        format!("https://{place}/v1"),
        format!("HTTP://{place}"),
        format!("//{place}/v1"),
        format!("\\\\{place}\\v1"),
        format!("http:\\\\{place}"),
        format!("{place}"),
        format!("http://configured.example@{place}/v1"),
        format!("http://{place}#@configured.example/"),
        format!("http://{place}?.configured.example/"),
        format!("http://127.1:{port}/v1"),
        format!("http://2130706433:{port}/v1"),
        format!("http://0x7f.0.0.1:{port}/v1"),
        format!("http://localhost.:{port}/v1"),
        format!("http://[::ffff:127.0.0.1]:{port}/v1"),
        format!("http://{coded}:{port}/v1"),
        format!("http://１２７。０。０。１:{port}/v1"),
    ]
}

/// Headers by which proxies, frameworks and other gateways let themselves be told where to go.
const HEADERS: [&str; 24] = [
    "x-forwarded-host",
    "x-forwarded-server",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "forwarded",
    "via",
    "x-host",
    "x-original-host",
    "x-original-url",
    "x-rewrite-url",
    "x-http-host-override",
    "x-real-ip",
    "x-base-url",
    "x-api-base",
    "x-upstream",
    "x-target-url",
    "x-scrollback-upstream",
    "x-scrollback-base-url",
    "openai-base-url",
    "proxy",
    "referer",
    "alt-used",
];

/// Members of a request by which clients of other gateways choose a place.
const MEMBERS: [&str; 16] = [
    "api_base",
    "base_url",
    "baseURL",
    "api_url",
    "endpoint",
    "host",
    "url",
    "server",
    "upstream",
    "proxy",
    "azure_endpoint",
    "custom_llm_provider",
    "provider",
    "litellm_params",
    "extra_body",
    "user",
];

/// Where models are asked.
const ENDPOINTS: [&str; 3] = ["/v1/chat/completions", "/v1/messages", "/v1/responses"];

fn hello(extra: &[(&str, Value)]) -> String {
    asking(ENDPOINTS[0], extra)
}

/// A request that an endpoint takes, with something more.
fn asking(path: &str, extra: &[(&str, Value)]) -> String {
    let said = json!([{ "role": "user", "content": "Where does this go?" }]);
    let mut body = match path {
        "/v1/messages" => json!({ "model": "claude-opus-4-8", "max_tokens": 9, "messages": said }),
        "/v1/responses" => json!({ "model": "gpt-5", "input": said }),
        _ => json!({ "model": "gpt-4o", "messages": said }),
    };
    for (name, value) in extra {
        body[*name] = value.clone();
    }
    body.to_string()
}

/// One request, as bytes: nothing on the way makes it nicer than it is.
fn attempt(path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    request("POST", path, headers, body.as_bytes())
}

/// Every way that is tried to have the other server asked.
fn attempts(evil: SocketAddr, own: SocketAddr) -> Vec<Vec<u8>> {
    let chat = "/v1/chat/completions";
    let mut all = Vec::new();
    for place in spellings(evil) {
        for (name, path) in HEADERS.iter().zip(ENDPOINTS.iter().cycle()) {
            // Letters of other scripts cannot stand in a header; their bytes can be sent all the same.
            all.push(attempt(path, &[(name, &place)], &asking(path, &[])));
        }
        for (name, path) in MEMBERS.into_iter().zip(ENDPOINTS.iter().cycle()) {
            let nested = json!({ "api_base": place, "base_url": place });
            let groups = matches!(name, "litellm_params" | "extra_body" | "provider");
            let value = if groups { nested } else { json!(place) };
            all.push(attempt(path, &[], &asking(path, &[(name, value)])));
        }
        // The model's name is looked up, and never a place.
        for model in [
            place.clone(),
            format!("openai/{place}"),
            format!("openai-compatible:{place}"),
            format!("gpt-4o@{place}"),
        ] {
            all.push(attempt(chat, &[], &hello(&[("model", json!(model))])));
        }
        let coded = percent_coded(&place);
        for query in ["api_base", "base_url", "url", "host", "upstream", "redirect"] {
            all.push(attempt(&format!("{chat}?{query}={coded}"), &[], &hello(&[])));
        }
        let plain = place.is_ascii().then(|| place.replace([' ', '#'], ""));
        for path in plain.iter().flat_map(|place| {
            [
                place.clone(),
                format!("/{place}"),
                format!("/v1/{place}"),
                format!("/v1/@{place}"),
                format!("/v1/..;/{place}"),
                format!("/v1/files/../../{place}"),
                format!("/v1/files/%2e%2e/%2e%2e/{place}"),
                format!("/v1/\\{place}"),
                format!("/v1/x:y@{place}/files"),
                format!("/v1/%0d%0ahost:%20{place}"),
            ]
        }) {
            all.push(attempt(&path, &[], &hello(&[])));
        }
        all.push(attempt(&format!("/v1/{coded}"), &[], &hello(&[])));
        // The host that is asked for, alone and beside the right one, and lines that end where they should not.
        let right = own.to_string();
        all.push(attempt(chat, &[("host", &place)], &hello(&[])));
        all.push(attempt(chat, &[("host", &right), ("host", &place)], &hello(&[])));
        all.push(attempt(chat, &[("x-note", &format!("a\r\nhost: {place}"))], &hello(&[])));
        all.push(attempt(chat, &[("x-note", &format!("a\nhost: {place}"))], &hello(&[])));
        all.push(attempt(chat, &[(&format!("host: {place}\r\nx-note"), "a")], &hello(&[])));
        all.push(attempt(&format!("http://{evil}/v1/chat/completions"), &[("host", &right)], &hello(&[])));
        all.push(
            format!("CONNECT {place} HTTP/1.1\r\nhost: {place}\r\nconnection: close\r\n\r\n").into_bytes(),
        );
    }
    all
}

#[test]
fn nothing_a_client_sends_chooses_who_is_asked() {
    let upstream = Upstream::start(|_, asked| match asked.path.as_str() {
        "/v1/messages" => message("Here."),
        "/v1/responses" => response("resp_1", "Here."),
        _ => completion("Here."),
    });
    let evil = Upstream::saying(completion("Thank you for the key."));
    let base = upstream.address;
    let variables = vec![
        ("OPENAI_BASE_URL", format!("http://{base}/v1")),
        ("ANTHROPIC_BASE_URL", format!("http://{base}")),
        ("OPENAI_API_KEY", KEY.into()),
        ("ANTHROPIC_API_KEY", KEY.into()),
    ];
    let server = Server::with("destination", &Setup { variables, ..Setup::default() });
    let mut all = attempts(evil.address, server.address);
    // The same without a body: pages are asked for the same way.
    for place in spellings(evil.address).iter().filter(|place| place.is_ascii()) {
        for path in [format!("/v1/files?url={place}"), format!("/v1/{place}"), place.clone()] {
            all.push(request("GET", &path.replace([' ', '#'], ""), &[("x-forwarded-host", place)], b""));
        }
    }
    assert!(all.len() >= 1_000, "{}", all.len());
    let mut answered = 0;
    for bytes in &all {
        let answer = send(server.address, bytes);
        let said = String::from_utf8_lossy(bytes);
        assert!(!answer.text().contains("Thank you"), "{said}");
        // The address alone is the first page of the lens, which is not far.
        assert!(answer.header("location").is_none_or(|place| place == "/lens"), "{said}");
        assert!((200..500).contains(&answer.status), "{}: {said}", answer.status);
        answered += usize::from(answer.status == 200);
    }
    assert!(evil.received().is_empty(), "{:?}", evil.received().first());
    assert_eq!(evil.connections(), 0, "the other server was not even called");
    let received = upstream.received();
    assert_eq!(received.len(), answered, "what was answered came from the provider");
    assert!(answered > all.len() / 2, "{answered} of {}: most are requests like any other", all.len());
    for one in received {
        assert_eq!(one.header("host"), Some(upstream.address.to_string().as_str()), "{one:?}");
        assert!(one.path.starts_with("/v1/") && !one.path.contains(".."), "{one:?}");
        let key = one.header("authorization").or(one.header("x-api-key"));
        assert!(key.is_some_and(|key| key.ends_with(KEY)), "the configured key goes with it: {one:?}");
    }
    server.verified();
    // They would have been seen.
    let mut stream = connect(evil.address);
    stream.write_all(&attempt("/v1/chat/completions", &[], &hello(&[]))).unwrap();
    stream.read_exact(&mut [0; 8]).unwrap();
    assert_eq!((evil.connections(), evil.received().len()), (1, 1));
    println!("{} attempts, {answered} answered by the provider that is configured", all.len());
}

#[test]
fn a_provider_that_points_elsewhere_is_not_followed() {
    let evil = Upstream::saying(completion("Thank you for the key."));
    let place = format!("http://{}/v1/chat/completions", evil.address);
    for status in [301, 302, 303, 307, 308] {
        let said = Says::Elsewhere(status, place.clone());
        let upstream =
            Upstream::start(move |number, _| if number == 0 { said.clone() } else { completion("Here.") });
        let server = Server::before(&format!("elsewhere-{status}"), upstream.address, "");
        let first = server.post("/v1/chat/completions", &hello(&[]));
        assert!(!first.text().contains("Thank you"), "{status}");
        assert_eq!(first.header("location"), None, "{status}: nor is the client sent there with its key");
        let second = server.post("/v1/chat/completions", &hello(&[]));
        assert_eq!((second.status, second.text()), (200, completion_body("Here.")), "{status}");
        assert_eq!(upstream.received().len(), 2, "{status}");
    }
    assert_eq!(evil.connections(), 0);
}
