//! Texts that look like secrets and are none.

use super::random::{ALNUM, BASE64, BASE64_URL, DIGITS, HEX, LOWER, Random};
use super::secrets::uuid;

type Make = fn(&mut Random) -> String;

/// What an agent reads all day.
pub(crate) const SORTS: &[(&str, Make)] = &[
    ("uuid", |r| format!("request {} took {} ms, parent {}", uuid(r), r.below(900), uuid(r))),
    ("git", |r| {
        format!(
            "commit {}\nAuthor: A <a@b>\n\n    Fix token refresh\n\nindex {}..{} 100644",
            r.text(HEX, 40),
            r.text(HEX, 7),
            r.text(HEX, 7)
        )
    }),
    ("digest", |r| match r.below(3) {
        0 => format!("nginx@sha256:{}", r.text(HEX, 64)),
        1 => format!("{}  target/release/app", r.text(HEX, 64)),
        _ => format!("etag: \"{}\"", r.text(HEX, 32)),
    }),
    ("lock file", |r| match r.below(2) {
        0 => format!(
            "[[package]]\nname = \"tokenizers\"\nversion = \"0.{}.1\"\nchecksum = \"{}\"",
            r.below(30),
            r.text(HEX, 64)
        ),
        _ => format!(
            "\"node_modules/js-tokens\": {{\"version\": \"4.0.{}\", \"resolved\": \"https://registry.example.com/js-tokens/-/js-tokens-4.0.0.tgz\", \"integrity\": \"sha512-{}==\"}}",
            r.below(9),
            r.text(BASE64, 86)
        ),
    }),
    ("base64 image", |r| {
        let length = r.between(400, 3000);
        format!("![chart](data:image/png;base64,iVBORw0KGgo{}=)", r.text(BASE64, length))
    }),
    ("minified script", |r| {
        let pieces = [
            "function(e,t){return e.token=t.token,e}",
            "password:e.password",
            "token:n(4821)",
            "secret:r.a2b3c4",
            "var a=[];",
            "if(!t.apiKey)throw Error(\"apiKey\")",
            "e.exports={tokenize:i}",
            "o.secretKey=void 0",
            "r(\"./token-2.js\")",
            "x.token=y.token2;",
            "{token:a,password:b}",
            "var s=u.password||\"\";",
        ];
        let count = r.between(10, 60);
        (0..count).map(|_| r.pick(&pieces)).collect::<Vec<_>>().join(";")
    }),
    ("prose", |r| {
        let words = [
            "the",
            "token",
            "password",
            "secret",
            "is",
            "a",
            "bearer",
            "basic",
            "of",
            "key",
            "api",
            "user",
            "must",
            "be",
            "reset:",
            "see",
            "authentication",
            "API key:",
            "ask-me",
            "task-list",
            "credentials",
            "at least 12",
            "Password: required,",
            "token: the",
            "risk-free",
            "Secret: none.",
            "Bearer tokens,",
            "Basic auth",
            "8-16",
        ];
        let count = r.between(20, 80);
        r.words(&words, count)
    }),
    ("placeholder", |r| {
        r.pick(&[
            "OPENAI_API_KEY=sk-...",
            "api_key: <your-api-key>",
            "token=YOUR_TOKEN_HERE",
            "password=********",
            "ANTHROPIC_API_KEY=sk-ant-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "Bearer <ACCESS_TOKEN>",
            "Bearer $TOKEN",
            "password: changeme",
            "API_KEY=${API_KEY}",
            "api_key=\"{{ secrets.API_KEY_2 }}\"",
            "GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "token: ${{ secrets.GITHUB_TOKEN }}",
            "\"apiKey\": \"your-api-key-123\"",
            "postgres://user:password@localhost/db",
            "redis://:${REDIS_PASS}@h",
            "aws_secret_access_key = <40 characters>",
            "secret=None",
            "password = null",
            "token: \"\"",
            "pwd: ''",
            "glpat-xxxxxxxxxxxxxxxxxxxx",
            "AKIA0000000000000000",
            "hf_your_token",
            "\"password\": \"string\"",
        ])
        .to_string()
    }),
    ("type", |r| {
        r.pick(&[
            "pub token: String,",
            "password: Option<SecretString>,",
            "token: &'a str,",
            "api_key: str | None = None",
            "password: z.string().min(8).max(64)",
            "secret: Vec<u8>,",
            "token: uint256;",
            "accessToken?: string;",
            "token: Annotated[str, Depends(oauth2_scheme)]",
            "password VARCHAR(255) NOT NULL",
            "token = Token(n=12)",
            "fn login(password: &str, token: Token2) -> bool",
            "apiKey: { type: \"string\" }",
            "private_key: PKey",
            "secret: ClassVar[bytes32]",
            "password = models.CharField(max_length=128)",
            "token: i64 = 0;",
        ])
        .to_string()
    }),
    ("code", |r| {
        r.pick(&[
            "token = get_token()",
            "let password = read_password(&prompt)?;",
            "token = tokens[i + 1]",
            "self.api_key = api_key or os.environ[\"API_KEY_2\"]",
            "if token == \"EOF1234\" { break }",
            "const secret = await vault.read(`kv/data/app2`)",
            "token = line.split(\" \")[0]",
            "secret := cfg.Secret2",
            "password = getpass.getpass(prompt=\"Password 1: \")",
            "for token in doc.tokens: print(token.text)",
            "client = Client(api_key=settings.api_key, token=self.token2)",
            "tokens = 128_000",
            "max_token=4096",
            "export TOKEN=$(gh auth token)",
            "PASSWORD=\"$(cat /run/secrets/db2)\"",
            "assert token != other_token_2",
            "parser.add_argument(\"--token\", help=\"API token, 40 characters\")",
            "token_type=Bearer",
        ])
        .to_string()
    }),
    ("usage", |r| {
        format!(
            r#"{{"id":"msg_{}","usage":{{"input_tokens":{},"output_tokens":{}}},"max_tokens":{},"token_count":{},"stop":null}}"#,
            r.text(ALNUM, 24),
            r.below(200_000),
            r.below(8000),
            r.below(128_000),
            r.below(99_999)
        )
    }),
    ("identifier", |r| {
        format!(
            "{}_{} call_{} req-{} run.{}",
            r.pick(&["toolu", "chatcmpl", "file", "thread", "cus"]),
            r.text(ALNUM, 24),
            r.text(ALNUM, 24),
            r.text(HEX, 32),
            r.text(BASE64_URL, 22)
        )
    }),
    ("log", |r| {
        format!(
            "2024-05-{:02}T10:{:02}:07.{}Z INFO auth: token refreshed in {}ms, password check ok user={} ip=10.0.{}.{}",
            r.between(1, 28),
            r.below(60),
            r.text(DIGITS, 6),
            r.below(900),
            r.text(LOWER, 6),
            r.below(255),
            r.below(255)
        )
    }),
    ("link", |r| {
        format!(
            "https://{}.example.com:8443/{}/{}?page_token={}&id={}#a:b@c",
            r.text(LOWER, 6),
            r.text(LOWER, 5),
            r.text(ALNUM, 12),
            r.text(BASE64_URL, 24),
            r.text(HEX, 16)
        )
    }),
    ("style sheet", |r| {
        format!(
            ".sk-estimator-doc-link {{ color: #{}; }} .token.keyword {{ color: #{} }} .disk-{} {{ margin: 0 }}",
            r.text(HEX, 6),
            r.text(HEX, 6),
            r.text(LOWER, 24)
        )
    }),
    ("manifest", |r| {
        format!(
            "env:\n  - name: DB_PASSWORD\n    valueFrom:\n      secretKeyRef:\n        name: db-secret-{}\n        key: password\nimagePullSecrets:\n  - name: pull-secret-2\nresourceVersion: \"{}\"\nuid: {}",
            r.text(LOWER, 5),
            r.text(DIGITS, 9),
            uuid(r)
        )
    }),
    ("certificate", |r| {
        let lines: Vec<String> = (0..8).map(|_| r.text(BASE64, 64)).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----", lines.join("\n"))
    }),
    ("test vector", |r| {
        format!(
            "{{\"tcId\": {}, \"msg\": \"{}\", \"sig\": \"{}\"}}",
            r.below(999),
            r.text(HEX, 64),
            r.text(HEX, 128)
        )
    }),
    ("talk of keys", |r| {
        r.pick(&[
            "Keys start with sk-ant- or sk-proj-; tokens with ghp_ or glpat-.",
            "The file begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----.",
            "A JWT is eyJ... with three parts, header.payload.signature.",
            "Send it as Authorization: Bearer followed by the token, or Basic with base64(user:password).",
            "AKIA is the prefix of access keys, ASIA of temporary ones, AIza of Google's.",
            "Set `npm_config_registry` and `hf_transfer`; see npm_lifecycle_event_and_other_variables_of_it.",
        ])
        .to_string()
    }),
];
