//! One row of the API: what is asked, what is answered, and who answers. Router and document are made from the same rows.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use scrollback_store::{BoxFuture, ConversationId, Tenant};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{ApiCaller, App, HttpProblem};

/// Makes the schema of a type.
pub(crate) type Describe = fn(&mut SchemaGenerator) -> Schema;

/// What the verb of an operation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Only looks.
    Get,
    /// May change something, or needs a body to say what is wanted.
    Post,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Post => "post",
        }
    }
}

/// What a caller must be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Read.
    Read,
    /// Change things.
    Write,
}

/// What the body of a request is.
#[derive(Clone, Copy)]
pub(crate) enum RequestBody {
    /// There is none.
    Nothing,
    /// JSON of this shape.
    Json(Describe),
    /// Any bytes.
    Bytes,
}

/// What the body of an answer is.
#[derive(Clone, Copy)]
pub(crate) enum ResponseBody {
    /// JSON of this shape.
    Json(Describe),
    /// A text of this media type.
    Text(&'static str),
}

/// One thing the API does.
pub(crate) struct Operation {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    /// Its name, for those who make clients from the document.
    pub(crate) name: &'static str,
    /// What it does, in one sentence.
    pub(crate) says: &'static str,
    pub(crate) right: Right,
    pub(crate) query: Option<Describe>,
    pub(crate) given: RequestBody,
    pub(crate) answered: ResponseBody,
    /// The status when all is well.
    pub(crate) status: StatusCode,
    /// The statuses of what may go wrong, beside those every operation has.
    pub(crate) problems: &'static [u16],
    pub(crate) run:
        Arc<dyn Fn(ApiRequest) -> BoxFuture<'static, Result<Response, HttpProblem>> + Send + Sync>,
}

/// A request on its way to its handler.
pub(crate) struct ApiRequest {
    pub(crate) app: App,
    pub(crate) caller: ApiCaller,
    pub(crate) path: HashMap<String, String>,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ApiRequest {
    /// Whose data.
    pub(crate) fn tenant(&self) -> &Tenant {
        &self.caller.tenant
    }

    /// A part of the path.
    pub(crate) fn part(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// The conversation the path names. What is no id is not found, like an id that is not there.
    pub(crate) fn conversation(&self) -> Result<ConversationId, HttpProblem> {
        ConversationId::parse(self.part("id")).ok_or_else(|| HttpProblem::not_found("conversation"))
    }

    fn query<Q: DeserializeOwned>(&self) -> Result<Q, HttpProblem> {
        axum::extract::Query::try_from_uri(&self.uri)
            .map(|axum::extract::Query(query)| query)
            .map_err(|error| HttpProblem::bad_request("bad_query", inner(&error)))
    }

    fn json<B: DeserializeOwned>(&self) -> Result<B, HttpProblem> {
        let kind = self.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        let kind = kind.split(';').next().unwrap_or("").trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let detail = "send JSON, with content-type: application/json";
            return Err(HttpProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", detail));
        }
        // No text is believed to be JSON that two readers could read differently.
        scrollback_core::json::check_bytes(&self.body).map_err(|error| {
            HttpProblem::bad_request("bad_json", format!("not valid JSON: {}", error.problem))
                .with("line", error.line)
        })?;
        serde_json::from_slice(&self.body)
            .map_err(|error| HttpProblem::bad_request("bad_request", error.to_string()))
    }
}

/// What an error says at its bottom: the outer one only says that the query is wrong.
fn inner(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}

/// An empty query.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

fn json<A: Serialize>(status: StatusCode, answer: &A) -> Result<Response, HttpProblem> {
    let text = serde_json::to_vec(answer).map_err(|error| {
        HttpProblem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("the answer cannot be printed: {error}"),
        )
    })?;
    Ok((status, [(header::CONTENT_TYPE, "application/json")], text).into_response())
}

impl Operation {
    /// Looks something up: a query in, JSON out.
    pub(crate) fn get<Q, A, W>(
        path: &'static str,
        name: &'static str,
        says: &'static str,
        run: fn(ApiRequest, Q) -> W,
    ) -> Self
    where
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema,
        W: Future<Output = Result<A, HttpProblem>> + Send + 'static,
    {
        let answer = move |asking: ApiRequest| -> BoxFuture<'static, Result<Response, HttpProblem>> {
            Box::pin(async move {
                let query = asking.query::<Q>()?;
                json(StatusCode::OK, &run(asking, query).await?)
            })
        };
        Operation {
            verb: Verb::Get,
            path,
            name,
            says,
            right: Right::Read,
            query: Some(SchemaGenerator::root_schema_for::<Q>),
            given: RequestBody::Nothing,
            answered: ResponseBody::Json(SchemaGenerator::subschema_for::<A>),
            status: StatusCode::OK,
            problems: &[],
            run: Arc::new(answer),
        }
    }

    /// Does something: JSON in, JSON out.
    pub(crate) fn post<B, A, W>(
        path: &'static str,
        name: &'static str,
        says: &'static str,
        run: fn(ApiRequest, B) -> W,
    ) -> Self
    where
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema,
        W: Future<Output = Result<A, HttpProblem>> + Send + 'static,
    {
        Operation::post_as(StatusCode::OK, path, name, says, run)
    }

    /// The same with another status for what is well.
    pub(crate) fn post_as<B, A, W>(
        status: StatusCode,
        path: &'static str,
        name: &'static str,
        says: &'static str,
        run: fn(ApiRequest, B) -> W,
    ) -> Self
    where
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema,
        W: Future<Output = Result<A, HttpProblem>> + Send + 'static,
    {
        let answer = move |asking: ApiRequest| -> BoxFuture<'static, Result<Response, HttpProblem>> {
            Box::pin(async move {
                let body = asking.json::<B>()?;
                json(status, &run(asking, body).await?)
            })
        };
        Operation {
            verb: Verb::Post,
            path,
            name,
            says,
            right: Right::Write,
            query: None,
            given: RequestBody::Json(SchemaGenerator::subschema_for::<B>),
            answered: ResponseBody::Json(SchemaGenerator::subschema_for::<A>),
            status,
            problems: &[],
            run: Arc::new(answer),
        }
    }

    /// Takes bytes of any kind, and a query that says what they are: JSON out.
    pub(crate) fn upload<Q, A, W>(
        path: &'static str,
        name: &'static str,
        says: &'static str,
        run: fn(ApiRequest, Q) -> W,
    ) -> Self
    where
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema,
        W: Future<Output = Result<A, HttpProblem>> + Send + 'static,
    {
        Operation {
            verb: Verb::Post,
            right: Right::Write,
            given: RequestBody::Bytes,
            ..Operation::get(path, name, says, run)
        }
    }

    /// Hands out a text of some media type.
    pub(crate) fn text<Q, W>(
        media: &'static str,
        path: &'static str,
        name: &'static str,
        says: &'static str,
        run: fn(ApiRequest, Q) -> W,
    ) -> Self
    where
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        W: Future<Output = Result<Response, HttpProblem>> + Send + 'static,
    {
        let answer = move |asking: ApiRequest| -> BoxFuture<'static, Result<Response, HttpProblem>> {
            Box::pin(async move {
                let query = asking.query::<Q>()?;
                run(asking, query).await
            })
        };
        Operation {
            verb: Verb::Get,
            path,
            name,
            says,
            right: Right::Read,
            query: Some(SchemaGenerator::root_schema_for::<Q>),
            given: RequestBody::Nothing,
            answered: ResponseBody::Text(media),
            status: StatusCode::OK,
            problems: &[],
            run: Arc::new(answer),
        }
    }

    /// The same, with what may go wrong.
    pub(crate) fn fails(mut self, problems: &'static [u16]) -> Self {
        self.problems = problems;
        self
    }

    /// The same for callers who may only read: the body says what is wanted and changes nothing.
    pub(crate) fn reading(mut self) -> Self {
        self.right = Right::Read;
        self
    }
}
