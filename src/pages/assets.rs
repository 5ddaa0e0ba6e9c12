//! The compiled-in style sheet, scripts and icon. Their names contain a hash of their content, so that browsers can
//! cache them for a year.

use std::sync::LazyLock;

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY},
    middleware::from_fn,
    web::{self, ServiceConfig},
};
use sha2::{Digest, Sha256};

use super::packed;
use crate::http::{
    error::{ApiError, Missing},
    middleware::only_reads,
};

/// Path of the assets, below a room's base path.
const PATH: &str = "/assets";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asset {
    Style,
    Script,
    Icon,
    /// Talks to an agent, on its page only.
    Talk,
    /// The frame of a widget, on websites.
    Widget,
    WidgetStyle,
}

struct CompressedAsset {
    name: String,
    media_type: &'static str,
    plain: &'static [u8],
    gzip: Vec<u8>,
}

static PREPARED: LazyLock<[CompressedAsset; 6]> = LazyLock::new(|| {
    [
        prepare(
            "style",
            "css",
            "text/css; charset=utf-8",
            include_bytes!("assets/style.css"),
        ),
        prepare(
            "script",
            "js",
            "text/javascript; charset=utf-8",
            include_bytes!("assets/script.js"),
        ),
        prepare(
            "icon",
            "svg",
            "image/svg+xml",
            include_bytes!("assets/icon.svg"),
        ),
        prepare(
            "talk",
            "js",
            "text/javascript; charset=utf-8",
            concat!(
                include_str!("assets/voice.js"),
                include_str!("assets/talk.js")
            )
            .as_bytes(),
        ),
        prepare(
            "frame",
            "js",
            "text/javascript; charset=utf-8",
            concat!(
                include_str!("assets/voice.js"),
                include_str!("assets/frame.js")
            )
            .as_bytes(),
        ),
        prepare(
            "widget",
            "css",
            "text/css; charset=utf-8",
            include_bytes!("assets/widget.css"),
        ),
    ]
});

fn prepare(
    stem: &str,
    extension: &str,
    media_type: &'static str,
    plain: &'static [u8],
) -> CompressedAsset {
    let hash = hex::encode(Sha256::digest(plain));
    CompressedAsset {
        name: format!("{stem}-{}.{extension}", &hash[..12]),
        media_type,
        plain,
        gzip: packed::once(plain).unwrap_or_default(),
    }
}

impl Asset {
    /// The asset's path in the room with this base path.
    pub fn path(self, base: &str) -> String {
        let at = match self {
            Self::Style => 0,
            Self::Script => 1,
            Self::Icon => 2,
            Self::Talk => 3,
            Self::Widget => 4,
            Self::WidgetStyle => 5,
        };
        format!("{base}{PATH}/{}", PREPARED[at].name)
    }
}

/// The pattern of the assets' paths in the room with this base path.
pub fn pattern(base: &str) -> String {
    format!("{base}{PATH}/{{name}}")
}

/// Mounts the assets in that room.
pub fn configure(cfg: &mut ServiceConfig, base: &str) {
    let resource = web::resource(pattern(base));
    cfg.service(resource.wrap(from_fn(only_reads)).to(serve));
}

/// `GET …/assets/{name}`
async fn serve(request: HttpRequest, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let asset = PREPARED.iter().find(|asset| asset.name == *name);
    let asset = asset.ok_or(ApiError::NotFound(Missing::Route))?;
    let mut response = HttpResponse::Ok();
    response
        .insert_header((CONTENT_TYPE, asset.media_type))
        .insert_header((CACHE_CONTROL, "public, max-age=31536000, immutable"))
        .insert_header((VARY, "Accept-Encoding"));
    if packed::is_taken(request.headers()) && !asset.gzip.is_empty() {
        response.insert_header((CONTENT_ENCODING, "gzip"));
        return Ok(response.body(&asset.gzip[..]));
    }
    Ok(response.body(asset.plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A first visit loads less than 60 KB, the page included.
    #[test]
    fn they_are_small_and_named_by_what_is_in_them() {
        let bytes = |assets: &[CompressedAsset]| -> usize {
            assets.iter().map(|asset| asset.gzip.len()).sum()
        };
        let (pages, widget) = PREPARED.split_at(4);
        assert!((1..20_000).contains(&bytes(pages)), "{}", bytes(pages));
        // With `widget.js`, the button of a website has less than 20 KB.
        assert!((1..15_000).contains(&bytes(widget)), "{}", bytes(widget));
        for asset in [Asset::Style, Asset::Script, Asset::Icon, Asset::Talk] {
            assert!(
                asset.path("/dashboard").starts_with("/dashboard/assets/"),
                "{asset:?}"
            );
        }
        assert_ne!(
            prepare("a", "b", "", b"1").name,
            prepare("a", "b", "", b"2").name
        );
    }
}
