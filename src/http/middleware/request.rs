//! The request id, and the error body for errors of every layer.

use std::{rc::Rc, time::Instant};

use actix_web::{
    Error, HttpMessage, HttpRequest, HttpResponse, ResponseError,
    body::{BodySize, BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    error::InternalError,
    http::{
        Method, StatusCode, Version,
        header::{
            ALLOW, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue,
            TRANSFER_ENCODING, X_FRAME_OPTIONS,
        },
    },
    middleware::Next,
    web,
};
use dikala_actors::{
    runtime::clock::{Clock, SystemClock},
    traces::Span,
};
use dikala_entities::{RequestId, TenantId, TraceParent};
use tracing::Instrument;

use crate::{
    front::{ConnectionProgress, GUARDS, RequestGuard},
    http::{
        body::keeping,
        context::HttpContext,
        denied::HttpRefusal,
        error::ApiError,
        meter::{HttpMeter, NO_ROUTE},
        request_id::{current_request_id, with_id},
        spans,
    },
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: &str = "traceparent";
const REQUEST_ID_LENGTH_MAX: usize = 64;

/// Gives the request its id (the client's, if valid), and puts it on the answer and every log line. Gives errors
/// without a body the standard one. Reports the request to its connection, and logs the outcome. Wraps the whole
/// application.
pub async fn request_scope(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let began = Instant::now();
    let id = sent_id(req.headers()).unwrap_or_else(|| new_id(&req));
    let header = HeaderValue::from_str(&id).expect("ids are made of header characters");
    let (method, route) = (req.method().clone(), req.match_pattern());
    let named = sent_trace(req.headers());
    let recorded = spans::begin(&req, route.as_deref(), named.as_ref());
    let own = recorded.as_ref().map(Span::traceparent);
    let trace_id = own.as_ref().or(named.as_ref());
    let trace_id = trace_id.map(|trace| trace.trace_id().to_owned());
    let span = tracing::info_span!("request", request_id = %id, trace_id);
    let connection = ConnectionState::new(&req);
    let meter = req.app_data::<web::Data<HttpMeter>>().cloned();
    let work = async {
        let answer = match next.call(req).await {
            Ok(response) => Ok(with_error_body(response.map_into_boxed_body())),
            Err(error) => Err(own_error(&error)),
        };
        let (status, tenant) = match &answer {
            Ok(response) => {
                let tenant = response.request().extensions().get::<TenantId>().copied();
                (response.status(), tenant)
            }
            Err(response) => (response.status(), None),
        };
        if let Some(meter) = meter {
            meter.answered(&method, route.as_deref(), status, began);
        }
        tracing::info!(
            %method,
            // Repeats the span's field, for searches in the fields of the line itself.
            request_id = current_request_id(),
            trace_id,
            route = route.as_deref().unwrap_or(NO_ROUTE),
            status = status.as_u16(),
            ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            tenant = tenant.map(tracing::field::display),
            "request"
        );
        (answer, status, tenant)
    };
    let work = with_id(id.clone(), named, recorded.as_ref(), work.instrument(span));
    let (answer, status, tenant) = work.await;
    spans::end(recorded, &id, status, tenant);
    match answer {
        Ok(response) => {
            let mut response = connection.finish(response);
            finish_head(response.headers_mut(), header);
            Ok(response)
        }
        Err(response) => {
            let mut response = connection.finish_error(response);
            finish_head(response.headers_mut(), header);
            Err(InternalError::from_response("answered", response).into())
        }
    }
}

/// For an endless answer: ends the connection as soon as the client closes its side. Fails if it already did.
pub fn while_connected(request: &HttpRequest) -> Result<(), ApiError> {
    match request.conn_data::<Rc<ConnectionProgress>>() {
        Some(progress) if !progress.stream() => Err(ApiError::Unavailable),
        _ => Ok(()),
    }
}

/// Restricts a finite, read-only resource to GET and HEAD. HEAD is handled as GET; the connection omits the body.
pub async fn only_reads<B: MessageBody>(
    mut req: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    match *req.method() {
        Method::GET => {}
        Method::HEAD => req.head_mut().method = Method::GET,
        _ => {
            let allow = "GET, HEAD".to_owned();
            return Err(ApiError::MethodNotAllowed { allow }.into());
        }
    }
    next.call(req).await
}

fn finish_head(headers: &mut HeaderMap, request_id: HeaderValue) {
    headers.insert(REQUEST_ID, request_id);
    // The frame of a widget is served to a website: its policy names it, which the older header cannot.
    let policy = headers.get(CONTENT_SECURITY_POLICY);
    let policy = policy.and_then(|policy| policy.to_str().ok());
    let is_framed = policy.is_some_and(|policy| policy.contains("frame-ancestors http"));
    for (name, value) in GUARDS {
        let is_left_out = is_framed && name == X_FRAME_OPTIONS;
        if !is_left_out && !headers.contains_key(&name) {
            headers.insert(name, value);
        }
    }
}

/// The connection of a request.
struct ConnectionState {
    /// None without a connection, as in a test.
    under_way: Option<(Rc<ConnectionProgress>, RequestGuard)>,
    with_body: bool,
    /// True if the client understands chunks.
    chunks: bool,
}

impl ConnectionState {
    fn new(req: &ServiceRequest) -> Self {
        let with_body = req.headers().contains_key(TRANSFER_ENCODING)
            || req
                .headers()
                .get(CONTENT_LENGTH)
                .is_some_and(|length| length.as_bytes() != b"0");
        let progress = req.request().conn_data::<Rc<ConnectionProgress>>().cloned();
        let under_way = progress.map(|progress| {
            let request = progress.begin(with_body);
            (progress, request)
        });
        Self {
            under_way,
            with_body,
            chunks: req.version() >= Version::HTTP_11,
        }
    }

    fn finish(self, mut response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
        self.finish_connection(response.response_mut());
        response.map_body(|_, body| self.until_sent(body))
    }

    fn finish_error(self, mut response: HttpResponse) -> HttpResponse {
        self.finish_connection(&mut response);
        response.map_body(|_, body| self.until_sent(body))
    }

    fn finish_connection(&self, response: &mut HttpResponse) {
        // Without chunks, only the end of the connection ends a body of unknown length.
        let until_closed = !self.chunks && response.body().size() == BodySize::Stream;
        if until_closed {
            response.head_mut().no_chunking(true);
        }
        if self.leaves_a_body(response.status()) || until_closed {
            response
                .head_mut()
                .set_connection_type(actix_http::ConnectionType::Close);
        }
    }

    /// True if the request was refused before its body was read. The rest of the body is not waited for.
    fn leaves_a_body(&self, status: StatusCode) -> bool {
        const BEFORE_THE_BODY: [StatusCode; 6] = [
            StatusCode::UNAUTHORIZED,
            StatusCode::FORBIDDEN,
            StatusCode::REQUEST_TIMEOUT,
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            StatusCode::TOO_MANY_REQUESTS,
        ];
        let leaves = self.with_body && BEFORE_THE_BODY.contains(&status);
        if let Some((progress, _)) = self.under_way.as_ref().filter(|_| leaves) {
            progress.close();
        }
        leaves
    }

    fn until_sent(self, body: BoxBody) -> BoxBody {
        match self.under_way {
            Some((_, under_way)) => keeping(body, under_way),
            None => body,
        }
    }
}

fn sent_id(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(&REQUEST_ID)?.to_str().ok()?;
    let usable = (1..=REQUEST_ID_LENGTH_MAX).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    usable.then(|| text.to_owned())
}

/// An invalid or repeated header is ignored.
fn sent_trace(headers: &HeaderMap) -> Option<TraceParent> {
    let mut sent = headers.get_all(TRACEPARENT);
    let first = sent.next()?.to_str().ok()?;
    TraceParent::parse(first).filter(|_| sent.next().is_none())
}

fn new_id(req: &ServiceRequest) -> String {
    let now = req
        .app_data::<web::Data<HttpContext>>()
        .map_or_else(|| SystemClock.now(), |http| http.clock.now());
    RequestId::new(now).to_string()
}

fn own_error(error: &Error) -> HttpResponse {
    if is_ours(error) {
        return error.error_response();
    }
    let status = error.as_response_error().status_code();
    ApiError::from_status(status, None).error_response()
}

fn is_ours(error: &Error) -> bool {
    error.as_error::<ApiError>().is_some() || error.as_error::<HttpRefusal>().is_some()
}

/// Replaces empty and plain-text bodies of the library's errors; keeps all others.
fn with_error_body(response: ServiceResponse) -> ServiceResponse {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let foreign = match response.response().error() {
        Some(error) => !is_ours(error),
        None => matches!(
            response.response().body().size(),
            BodySize::None | BodySize::Sized(0)
        ),
    };
    if !foreign {
        return response;
    }
    let allow = response
        .headers()
        .get(ALLOW)
        .and_then(|allow| allow.to_str().ok());
    let own = ApiError::from_status(status, allow.map(str::to_owned)).error_response();
    response.into_response(own)
}
