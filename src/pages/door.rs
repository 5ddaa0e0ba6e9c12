//! Common handling of page requests and answers: access rights, origin checks, form parsing and security headers.

use actix_web::{
    Error, HttpMessage, HttpRequest, HttpResponse,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
            HeaderValue, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
    },
};

use super::{
    cross_site::{OriginHeaders, TOKEN_FIELD, is_own},
    errors,
    form::FormValues,
    headers::header,
    table::{self, PageAccess, PageMatch},
    view::View,
};
use crate::http::{
    body::{FORM_BYTES_MAX, KEPT_FORM_BYTES_MAX, STRANGERS_FORM_BYTES_MAX},
    error::{ApiError, Missing},
    middleware::receive,
};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Bytes of a form from which on it is kept if the session is over. A shorter one is soon filled in again.
const KEPT_FROM: usize = 200;
const FORM: &str = "application/x-www-form-urlencoded";
/// Allows no content from other sites, no inline scripts or styles, and no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Handles HEAD as GET; actix omits the body, because the connection knows the original method.
pub fn read_head_as_get(req: &mut ServiceRequest) {
    if req.method() == Method::HEAD {
        req.head_mut().method = Method::GET;
    }
}

/// Admits a request, and stores its posted form for the handler. Returns the error page if it must not proceed.
/// `base` is the public URL, if it is configured.
pub async fn admit(
    view: &View,
    base: Option<&str>,
    req: &mut ServiceRequest,
) -> Result<(), HttpResponse> {
    let is_post = req.method() == Method::POST;
    if is_foreign(req.request(), base) {
        return Err(errors::foreign(view));
    }
    let (audience, is_signed_in) = (view.audience(), view.account().is_some());
    let (pages, base) = (audience.pages, audience.base);
    let pattern = req.match_pattern();
    let access = match table::find(pages, base, pattern.as_deref(), req.method()) {
        PageMatch::Page(access) => access,
        // A refused form leaves the browser at the address of its post. A reload by GET leads to the page above.
        PageMatch::OtherMethods(_) if is_signed_in && req.method() == Method::GET => {
            let pattern = pattern.as_deref().unwrap_or_default();
            return Err(view.go(table::above(pages, base, pattern, req.path())));
        }
        PageMatch::OtherMethods(_) if req.method() == Method::GET => {
            return Err(sign_in(view, req));
        }
        PageMatch::OtherMethods(allow) => {
            return Err(errors::of(view, &ApiError::MethodNotAllowed { allow }));
        }
        PageMatch::Nothing => return Err(nothing(view, req)),
    };
    if !is_signed_in && access != PageAccess::Anybody {
        return Err(signed_out(view, req).await);
    }
    if is_post {
        let bytes_max = match is_signed_in {
            true => FORM_BYTES_MAX,
            false => STRANGERS_FORM_BYTES_MAX,
        };
        let typed = typed(req, bytes_max).await;
        let mut typed = typed.map_err(|error| errors::of(view, &error))?;
        if !view.knows(typed.text(TOKEN_FIELD).unwrap_or_default()) {
            typed = match is_signed_in {
                true => return Err(errors::outdated(view, address(req), &typed)),
                // Tabs that were opened at once got a cookie each, and the last one stays. Without its password the
                // form is shown again, and signs nobody in.
                false if req.path() == audience.sign_in => typed.without_secrets(),
                false => return Err(errors::foreign(view)),
            };
        }
        req.extensions_mut().insert(typed);
    }
    if is_signed_in && access == PageAccess::Owner && !view.may_change() {
        return Err(errors::view_only(view));
    }
    Ok(())
}

/// Signed-in readers get 404; others are sent to the sign-in page, so that they learn nothing about paths.
fn nothing(view: &View, req: &ServiceRequest) -> HttpResponse {
    let path = req.path();
    let without_slash = path.trim_end_matches('/');
    let is_other = without_slash != path && view.audience().owns(without_slash);
    match view.account() {
        _ if req.method() == Method::GET && is_other => view.go(without_slash),
        Some(_) => errors::of(view, &ApiError::NotFound(Missing::Route)),
        None => sign_in(view, req),
    }
}

/// The answer to a request whose session is over. A form with a long text is kept; a redirect would lose it.
async fn signed_out(view: &View, req: &mut ServiceRequest) -> HttpResponse {
    if req.method() == Method::POST
        && let Ok(typed) = typed(req, KEPT_FORM_BYTES_MAX).await
        && typed.kept().map(|(_, value)| value.len()).sum::<usize>() >= KEPT_FROM
    {
        return errors::signed_out(view, address(req), &typed);
    }
    sign_in(view, req)
}

/// A redirect to the sign-in page, with the requested page as its destination unless that is the home page.
fn sign_in(view: &View, req: &ServiceRequest) -> HttpResponse {
    let audience = view.audience();
    let back = address(req);
    if req.method() != Method::GET || back == audience.home {
        return view.go(audience.sign_in);
    }
    let next: String = url::form_urlencoded::byte_serialize(back.as_bytes()).collect();
    view.go(&format!("{}?next={next}", audience.sign_in))
}

/// The request's path and query.
fn address(req: &ServiceRequest) -> &str {
    req.uri().path_and_query().map_or("", |it| it.as_str())
}

/// True if another site made this post. `base` is the public URL, if it is configured.
///
/// Browsers send no `SameSite=Lax` cookie with such a post. Its answer must set none either: that cookie would
/// replace the session's, and any site could sign its visitors out.
pub fn is_foreign(request: &HttpRequest, base: Option<&str>) -> bool {
    let headers = request.headers();
    let sent = OriginHeaders {
        origin: header(headers, &ORIGIN),
        fetch_site: header(headers, &FETCH_SITE),
        host: header(headers, &HOST),
    };
    request.method() == Method::POST && !is_own(sent, base)
}

/// The posted form's values.
async fn typed(req: &mut ServiceRequest, bytes_max: usize) -> Result<FormValues, ApiError> {
    let is_form = header(req.headers(), &CONTENT_TYPE).map(|media_type| {
        let essence = media_type.split(';').next().unwrap_or_default();
        essence.trim().eq_ignore_ascii_case(FORM)
    });
    if is_form == Some(false) {
        return Err(ApiError::UnsupportedMediaType(FORM));
    }
    let body = receive(req, bytes_max).await?;
    match is_form {
        // A post without a body has no content type; it counts as an empty form.
        None if !body.is_empty() => Err(ApiError::UnsupportedMediaType(FORM)),
        _ => Ok(FormValues::parse(&body)),
    }
}

/// Turns a failed answer into its page, and adds the headers of every page.
pub fn paged(view: &View, mut response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    if let Some(error) = response.response().error().map(own) {
        response = response.into_response(errors::of(view, &error));
    }
    bind(response.headers_mut());
    response
}

/// Converts a framework's error, of which only the status is known.
fn own(error: &Error) -> ApiError {
    let status = error.as_response_error().status_code();
    let own = error.as_error::<ApiError>().cloned();
    own.unwrap_or_else(|| ApiError::from_status(status, None))
}

fn bind(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
