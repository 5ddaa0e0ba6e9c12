//! One HTTP exchange with a tenant's server, within a timeout and a size limit whatever the server does.

use std::{fmt, time::Duration};

use awc::{
    ClientResponse,
    http::{
        Method, StatusCode, Uri,
        header::{HOST, HeaderMap, HeaderValue},
    },
};
use bytes::Bytes;
use futures_util::StreamExt;

use super::{
    client::OutboundClient,
    failure::{ErrorKind, Failure, broken_off, is_cut, kind_of},
};

/// A request without its body.
#[derive(Clone, Debug)]
pub struct Head {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub status: u16,
    /// The `Retry-After` header as received.
    pub retry_after: Option<String>,
    /// The beginning of the body.
    pub body: Vec<u8>,
    /// True if the body exceeded the limit.
    pub truncated: bool,
    /// True if the server closed the connection before the end of the body.
    pub cut: bool,
}

impl Exchange {
    /// 410 Gone: the address wants nothing more.
    pub fn is_gone(&self) -> bool {
        self.status == 410
    }
}

/// The part of an answer received so far.
#[derive(Debug, Default)]
struct PartialAnswer {
    status: Option<StatusCode>,
    body: Vec<u8>,
}

/// One exchange: connect, send, read up to `body_max` bytes of the answer, all within `limit`. A longer body is cut,
/// and the answer counts by its status.
pub async fn exchange(
    client: &OutboundClient,
    head: Head,
    body: Bytes,
    body_max: usize,
    limit: Duration,
) -> Result<Exchange, Failure> {
    let mut come = PartialAnswer::default();
    let talk = talk(client, head, body, body_max, &mut come);
    let ended = tokio::time::timeout(limit, talk).await;
    match ended.unwrap_or(Err(ErrorKind::Timeout)) {
        Ok(rest) => Ok(Exchange {
            status: rest.status,
            retry_after: rest.retry_after,
            body: come.body,
            truncated: rest.truncated,
            cut: rest.cut,
        }),
        Err(kind) => Err(Failure {
            kind,
            status: come.status.map(|status| status.as_u16()),
            body: come.body,
        }),
    }
}

/// An answer read piece by piece.
pub struct StreamingAnswer {
    pub status: u16,
    response: ClientResponse,
}

impl fmt::Debug for StreamingAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// Sends the request and waits at most `limit` for the head of an answer that may go on for long.
pub async fn open(
    client: &OutboundClient,
    head: Head,
    limit: Duration,
) -> Result<StreamingAnswer, ErrorKind> {
    let sent = tokio::time::timeout(limit, send(client, head, Bytes::new())).await;
    let response = sent.unwrap_or(Err(ErrorKind::Timeout))?;
    Ok(StreamingAnswer {
        status: response.status().as_u16(),
        response,
    })
}

impl StreamingAnswer {
    /// The next piece, within `limit`; none at the end.
    pub async fn chunk(&mut self, limit: Duration) -> Result<Option<Bytes>, ErrorKind> {
        let chunk = tokio::time::timeout(limit, self.response.next()).await;
        let chunk = chunk.map_err(|_| ErrorKind::Timeout)?;
        match chunk {
            Some(Err(error)) if is_cut(&error) => Ok(None),
            chunk => chunk.transpose().map_err(|error| broken_off(&error)),
        }
    }
}

async fn send(
    client: &OutboundClient,
    head: Head,
    body: Bytes,
) -> Result<ClientResponse, ErrorKind> {
    let (uri, host) = as_plain(&head.uri).ok_or(ErrorKind::Connect)?;
    let http = match head.uri.scheme_str() {
        Some("https") => &client.secure,
        _ => &client.plain,
    };
    // Some servers take such a body for the next request, so the connection must close.
    let misread = !body.is_empty() && matches!(head.method, Method::GET | Method::DELETE);
    let mut request = http.request(head.method, uri).no_decompress();
    if misread || !client.keeps {
        request = request.force_close();
    }
    for (name, value) in head.headers {
        request.headers_mut().insert(name, value);
    }
    request.headers_mut().insert(HOST, host);
    let sent = request.send_body(body).await;
    sent.map_err(|error| kind_of(&error))
}

/// The address without TLS, which the connector adds, and the `Host` header for it.
fn as_plain(uri: &Uri) -> Option<(Uri, HeaderValue)> {
    let authority = uri.authority()?;
    let plain = Uri::builder()
        .scheme("http")
        .authority(authority.clone())
        .path_and_query(uri.path_and_query()?.clone())
        .build()
        .ok()?;
    Some((plain, HeaderValue::from_str(authority.as_str()).ok()?))
}

/// The head of an answer.
struct AnswerHead {
    status: u16,
    retry_after: Option<String>,
    truncated: bool,
    cut: bool,
}

async fn talk(
    client: &OutboundClient,
    head: Head,
    body: Bytes,
    body_max: usize,
    come: &mut PartialAnswer,
) -> Result<AnswerHead, ErrorKind> {
    let mut response = send(client, head, body).await?;
    come.status = Some(response.status());
    let retry_after = response
        .headers()
        .get("retry-after")
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let (mut truncated, mut cut) = (false, false);
    while let Some(chunk) = response.next().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error) if is_cut(&error) => {
                cut = true;
                break;
            }
            Err(error) => return Err(broken_off(&error)),
        };
        let room = body_max - come.body.len();
        come.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            truncated = true;
            break;
        }
    }
    Ok(AnswerHead {
        status: response.status().as_u16(),
        retry_after,
        truncated,
        cut,
    })
}
