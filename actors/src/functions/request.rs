//! The request to a function's endpoint, and the meaning of its answer. Pure.

use awc::http::{
    Method, Uri,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use bytes::Bytes;
use dikala_entities::{CallId, FunctionMethod, foreign_json, nesting};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{FaultCode, Invoke, Outcome};
use crate::{
    outbound::{Exchange, Head},
    webhooks::signature::Signer,
};

/// The most bytes of an address that a request takes, by the crate `http`.
const ADDRESS_BYTES_MAX: usize = 65_534;

/// The request cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnusableAddress {
    Malformed,
    /// With the arguments in it.
    TooLong,
}

/// A request for display. The connection adds `Host`, `User-Agent` and `Content-Length`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionRequest {
    pub method: FunctionMethod,
    pub url: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl FunctionRequest {
    /// The request of an invocation. None if the address cannot be used.
    pub fn of(invoke: &Invoke) -> Option<Self> {
        let (head, body) = build(invoke).ok()?;
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = head.headers.iter();
        let mut headers: Vec<(String, String)> = headers
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();
        headers.sort_unstable();
        Some(Self {
            method: invoke.function.method,
            url: head.uri.to_string(),
            headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    call_id: CallId,
    function_name: &'a str,
    parameters: &'a Map<String, Value>,
}

/// Builds an invocation's request. Body and signature are the same for every method; GET also has the parameters in
/// the query.
pub(super) fn build(invoke: &Invoke) -> Result<(Head, Bytes), UnusableAddress> {
    let body = serde_json::to_vec(&Body {
        call_id: invoke.call,
        function_name: &invoke.function.name,
        parameters: &invoke.parameters,
    })
    .map_err(|_| UnusableAddress::Malformed)?;
    let signature = Signer::new(&invoke.secret).service_signature(&body);
    let mut headers = HeaderMap::new();
    headers.insert(
        HeaderName::from_static("content-type"),
        HeaderValue::from_static("application/json"),
    );
    headers.insert(
        HeaderName::from_static("x-service-signature"),
        HeaderValue::try_from(signature).map_err(|_| UnusableAddress::Malformed)?,
    );
    if invoke.is_test {
        headers.insert(
            HeaderName::from_static("x-service-test"),
            HeaderValue::from_static("true"),
        );
    }
    if let Some(trace) = &invoke.traceparent {
        headers.insert(
            HeaderName::from_static("traceparent"),
            HeaderValue::try_from(trace).map_err(|_| UnusableAddress::Malformed)?,
        );
    }
    let head = Head {
        method: method(invoke.function.method),
        uri: uri(invoke)?,
        headers,
    };
    Ok((head, body.into()))
}

fn method(method: FunctionMethod) -> Method {
    match method {
        FunctionMethod::Get => Method::GET,
        FunctionMethod::Post => Method::POST,
        FunctionMethod::Put => Method::PUT,
        FunctionMethod::Patch => Method::PATCH,
        FunctionMethod::Delete => Method::DELETE,
    }
}

fn uri(invoke: &Invoke) -> Result<Uri, UnusableAddress> {
    let mut url = invoke.function.endpoint.to_url();
    if invoke.function.method == FunctionMethod::Get && !invoke.parameters.is_empty() {
        let mut query = url.query_pairs_mut();
        for (name, value) in &invoke.parameters {
            match value {
                Value::String(text) => query.append_pair(name, text),
                other => query.append_pair(name, &other.to_string()),
            };
        }
    }
    let is_long = url.as_str().len() > ADDRESS_BYTES_MAX;
    url.as_str().parse().map_err(|_| match is_long {
        true => UnusableAddress::TooLong,
        false => UnusableAddress::Malformed,
    })
}

/// A 2xx answer with a JSON object is a result; anything else is a fault.
pub(super) fn outcome_of(answer: &Exchange) -> Outcome {
    if !(200..300).contains(&answer.status) {
        return Outcome::error(
            FaultCode::HttpStatus,
            format!(
                "The function's endpoint answered with status {}.",
                answer.status
            ),
        );
    }
    if answer.truncated {
        return Outcome::error(
            FaultCode::TooLarge,
            "The answer of the function's endpoint is larger than 64 KiB.",
        );
    }
    if answer.cut {
        return Outcome::error(
            FaultCode::Connection,
            "The connection to the function's endpoint broke in the middle of its answer.",
        );
    }
    match foreign_json::object(&answer.body) {
        Ok(result) if nesting::fits(&result) => Outcome::Ok { result },
        Ok(_) => Outcome::error(
            FaultCode::InvalidResponse,
            format!(
                "The answer of the function's endpoint is nested more than {} deep.",
                nesting::DEPTH_MAX
            ),
        ),
        Err(_) => Outcome::error(
            FaultCode::InvalidResponse,
            "The function's endpoint did not answer with a JSON object.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &[u8]) -> Exchange {
        Exchange {
            status,
            retry_after: None,
            body: body.to_vec(),
            truncated: false,
            cut: false,
        }
    }

    #[test]
    fn an_object_whose_rest_may_be_missing_is_no_result() {
        let whole = answer(200, b"{\"a\":1}");
        let cut = Exchange { cut: true, ..whole };
        let Outcome::Error { code, .. } = outcome_of(&cut) else {
            panic!("a result");
        };
        assert_eq!(code, FaultCode::Connection);
    }

    #[test]
    fn only_an_object_of_a_2xx_is_a_result() {
        assert!(matches!(
            outcome_of(&answer(200, b"{}")),
            Outcome::Ok { .. }
        ));
        assert!(matches!(
            outcome_of(&answer(201, b" {\"a\":1} ")),
            Outcome::Ok { .. }
        ));
        for (status, body, code) in [
            (204, &b""[..], FaultCode::InvalidResponse),
            (200, b"[]", FaultCode::InvalidResponse),
            (200, b"null", FaultCode::InvalidResponse),
            (200, b"\xff\xfe", FaultCode::InvalidResponse),
            (200, b"{\"a\":1e999}", FaultCode::InvalidResponse),
            (
                200,
                br#"{"$serde_json::private::RawValue":"1"}"#,
                FaultCode::InvalidResponse,
            ),
            (302, b"{}", FaultCode::HttpStatus),
            (404, b"{}", FaultCode::HttpStatus),
            (500, b"{}", FaultCode::HttpStatus),
        ] {
            let outcome = outcome_of(&answer(status, body));
            assert!(
                matches!(outcome, Outcome::Error { code: c, .. } if c == code),
                "{status} {body:?}: {outcome:?}"
            );
        }
        for (levels, fits) in [(64, true), (65, false), (127, false), (500, false)] {
            let deep = [
                b"{\"a\":".repeat(levels),
                b"1".to_vec(),
                b"}".repeat(levels),
            ]
            .concat();
            let outcome = outcome_of(&answer(200, &deep));
            assert_eq!(outcome.fault().is_none(), fits, "{levels}: {outcome:?}");
        }
    }
}
