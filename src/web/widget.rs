//! The button of a widget on a website.
//!
//! `/widget.js` puts a frame of ours on the page. The page's origin stands in the frame's address. The frame is served to that origin
//! alone (`frame-ancestors`), and only if the widget names it. So the browser itself makes sure that the origin is the true one, and
//! the website's own Content-Security-Policy needs no more than `frame-src`. The frame asks for the token of a call and talks.

use std::net::{IpAddr, Ipv4Addr};

use actix_web::{
    Error, HttpRequest, HttpResponse,
    http::{
        StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST,
            HeaderName, ORIGIN, REFERRER_POLICY, VARY,
        },
    },
    middleware::from_fn,
    web::{self, Data},
};
use maud::{DOCTYPE, html};
use serde::Deserialize;

use crate::{
    front::network,
    http::{
        context::HttpContext,
        denied::HttpRefusal,
        extract::{BlankRule, RequestBody, text},
        gate::address_of,
        middleware::{count_visit, only_reads, receive_body},
    },
    operations::{
        OperationResources,
        widgets::{
            TEXTS,
            visitors::{self, VisitorRefusal},
        },
    },
    pages::{
        assets::{self, Asset},
        cross_site::{OriginHeaders, is_own},
        headers::header,
        lang::Lang,
        packed,
    },
};

const SCRIPT: &str = include_str!("../pages/assets/widget.js");
/// The time in which browsers use a script again without asking, in seconds.
const SCRIPT_CACHED: &str = "public, max-age=3600";
const BASE: &str = "/web/v1";
const FRAME: &str = "/web/v1/widget";
const CALLS: &str = "/web/v1/widget/calls";
/// Characters of a key or an origin.
const PARAMETER_CHARS_MAX: usize = 300;
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
/// The luminance on which white text, and the dark text of `widget.css`, have the same contrast.
const EQUAL_CONTRAST: f64 = 0.194;
/// Seconds after which a busy widget may have a place.
const BUSY_RETRY_SECONDS: i64 = 30;
/// Seconds after which a widget whose agent takes no calls may take one.
const CLOSED_RETRY_SECONDS: i64 = 300;

/// The widget, and the website that shows it.
#[derive(Debug, Deserialize)]
struct WidgetPlace {
    key: String,
    origin: String,
    lang: Option<String>,
    place: Option<String>,
}

/// `GET /widget.js`
async fn script(request: HttpRequest) -> HttpResponse {
    static PACKED: std::sync::LazyLock<Option<Vec<u8>>> =
        std::sync::LazyLock::new(|| packed::once(SCRIPT.as_bytes()).ok());
    let mut response = HttpResponse::Ok();
    response
        .insert_header((CONTENT_TYPE, "text/javascript; charset=utf-8"))
        .insert_header((CACHE_CONTROL, SCRIPT_CACHED))
        .insert_header((VARY, "Accept-Encoding"))
        .insert_header((RESOURCE_POLICY, "cross-origin"));
    match PACKED
        .as_ref()
        .filter(|_| packed::is_taken(request.headers()))
    {
        Some(bytes) => response
            .insert_header((CONTENT_ENCODING, "gzip"))
            .body(&bytes[..]),
        None => response.body(SCRIPT),
    }
}

/// `GET /web/v1/widget`: the frame.
async fn frame(
    request: HttpRequest,
    place: Option<web::Query<WidgetPlace>>,
    http: Data<HttpContext>,
) -> Result<HttpResponse, Error> {
    let place = place.ok_or_else(|| refused(VisitorRefusal::Unknown))?;
    let dest = header(request.headers(), &SEC_FETCH_DEST);
    if dest.is_some_and(|dest| dest != "iframe") {
        return Err(refused(VisitorRefusal::Origin));
    }
    let widget = visitors::find(&http.store, &place.key, &place.origin).await;
    let widget = widget.map_err(refused)?;
    let lang = Lang::of(request.headers(), place.lang.as_deref());
    let replaced = widget.texts();
    let text = |name: &str| match replaced.get(name) {
        Some(text) => text.clone(),
        None => lang.t(builtin(name)),
    };
    let words: Vec<String> = TEXTS
        .iter()
        .map(|name| format!("{name}\t{}", text(name)))
        .collect();
    let is_light = widget.color.as_deref().is_some_and(is_light);
    let document = html! {
        (DOCTYPE)
        html lang=(lang.tag()) class=[(place.place.as_deref() == Some("inline")).then_some("inline")] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (text("title")) }
                link rel="stylesheet" href=(Asset::WidgetStyle.path(BASE));
                script src=(Asset::Widget.path(BASE)) defer {}
            }
            body.dark-text[is_light] data-widget data-key=(place.key) data-origin=(place.origin) data-calls=(CALLS)
                data-script=(Asset::Widget.path(BASE)) data-words=(words.join("\n")) data-color=[widget.color.as_deref()] {
                main #widget {
                    section #panel hidden aria-label=(text("title")) {
                        p #state role="status" {}
                        meter #level hidden min="0" max="1" value="0" aria-label=(text("level")) {}
                        div.log role="log" tabindex="0" aria-label=(text("log")) { ol #log {} }
                        button #end type="button" hidden { (text("end")) }
                    }
                    button #start type="button" { (text("start")) }
                    p #notice { (text("notice")) }
                }
            }
        }
    };
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors {}; base-uri 'none'; \
         form-action 'none'",
        place.origin
    );
    let answer = HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/html; charset=utf-8"))
        .insert_header((CONTENT_SECURITY_POLICY, policy))
        .insert_header((CACHE_CONTROL, "no-store"))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .insert_header((RESOURCE_POLICY, "cross-origin"))
        .body(document.into_string());
    Ok(answer)
}

/// The message with the built-in text of that name.
fn builtin(name: &str) -> &'static str {
    match name {
        "start" => "widget-start",
        "notice" => "widget-notice",
        "connecting" => "talk-connecting",
        "ready" => "widget-ready",
        "end" => "talk-end",
        "ended" => "widget-ended",
        "lost" => "widget-lost",
        "refused" => "widget-refused",
        "missing" => "talk-missing",
        "press" => "widget-press",
        "limit" => "widget-limit",
        "caller" => "widget-caller",
        "agent" => "widget-agent",
        "title" => "widget-title",
        "level" => "talk-level",
        "log" => "talk-log",
        _ => "widget-unavailable",
    }
}

/// True if dark text on this colour has more contrast than white text (WCAG 2.2, relative luminance and contrast ratio).
#[expect(
    clippy::float_arithmetic,
    reason = "the formula of luminance has a power of 2.4"
)]
fn is_light(color: &str) -> bool {
    let part = |at: usize| {
        let digits = color.get(at..at + 2).unwrap_or_default();
        let part = f64::from(u8::from_str_radix(digits, 16).unwrap_or(0)) / 255.0;
        match part <= 0.04045 {
            true => part / 12.92,
            false => ((part + 0.055) / 1.055).powf(2.4),
        }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5) > EQUAL_CONTRAST
}

/// `POST /web/v1/widget/calls`: the token of a call.
async fn call(
    request: HttpRequest,
    body: RequestBody,
    http: Data<HttpContext>,
    resources: Data<OperationResources>,
) -> Result<HttpResponse, Error> {
    let headers = request.headers();
    let sent = OriginHeaders {
        origin: header(headers, &ORIGIN),
        fetch_site: header(headers, &SEC_FETCH_SITE),
        host: header(headers, &HOST),
    };
    // Only the frame asks, which is of our own origin and was served to the website alone.
    if !is_own(sent, Some(&resources.base)) {
        return Err(refused(VisitorRefusal::Origin));
    }
    let text = text(1, PARAMETER_CHARS_MAX, BlankRule::Opaque);
    let (key, origin) = body.form()?.read(&[], |form| {
        let key = form.required("key", None, &text);
        let origin = form.required("origin", None, &text);
        Some((key?, origin?))
    })?;
    let widget = visitors::find(&http.store, &key, &origin).await;
    let widget = widget.map_err(refused)?;
    let address = address_of(&request, &http.settings).map(network);
    let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let (store, now) = (&http.store, http.clock.now());
    let made = visitors::call(store, &resources.base, &widget, address, now).await;
    let token = made.map_err(refused)?;
    Ok(HttpResponse::Created()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(token))
}

fn refused(refusal: VisitorRefusal) -> Error {
    let refusal = match refusal {
        VisitorRefusal::Failed(error) => return error.into(),
        VisitorRefusal::Unknown => HttpRefusal::new(
            StatusCode::NOT_FOUND,
            "widget_not_found",
            "No widget has this key. Copy the line for your website again from the dashboard.",
        ),
        VisitorRefusal::Origin => HttpRefusal::new(
            StatusCode::FORBIDDEN,
            "foreign_origin",
            "The widget is not for this website. Its owner can add the website's origin to it.",
        ),
        VisitorRefusal::Often(seconds) => HttpRefusal::new(
            StatusCode::TOO_MANY_REQUESTS,
            "visitor_limit",
            "As many calls came from this network address within an hour as the widget allows.",
        )
        .after(seconds),
        VisitorRefusal::Busy => HttpRefusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "widget_busy",
            "As many visitors talk as the widget allows. Try again in a moment.",
        )
        .after(BUSY_RETRY_SECONDS),
        VisitorRefusal::Closed => HttpRefusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "widget_closed",
            "The agent takes no calls now. Try again later.",
        )
        .after(CLOSED_RETRY_SECONDS),
    };
    refusal.into()
}

/// Mounts the widget's script and frame.
pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    assets::configure(cfg, BASE);
    cfg.service(
        web::resource("/widget.js")
            .wrap(from_fn(only_reads))
            .to(script),
    )
    .service(
        web::resource(FRAME)
            .wrap(from_fn(count_visit))
            .route(web::get().to(frame)),
    )
    .service(
        web::resource(CALLS)
            .wrap(from_fn(receive_body))
            .wrap(from_fn(count_visit))
            .route(web::post().to(call)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_on_a_button_can_be_read() {
        for light in [
            "#ffffff", "#ffd400", "#a7f3d0", "#8b8b8b", "#ff0000", "#3b9b6d",
        ] {
            assert!(is_light(light), "{light}");
        }
        for dark in ["#000000", "#0f766e", "#b3261e", "#1d4ed8", ""] {
            assert!(!is_light(dark), "{dark}");
        }
    }

    #[test]
    fn every_text_has_built_in_words_of_its_own() {
        let ids: std::collections::BTreeSet<_> = TEXTS.iter().map(|name| builtin(name)).collect();
        assert_eq!(ids.len(), TEXTS.len());
        for lang in Lang::ALL {
            assert!(ids.iter().all(|id| lang.find(id, &[]).is_some()));
        }
    }
}
