//! The public address of a service, as a user types it.

use std::str::FromStr;

use url::Url;

/// The public address of a service: `http(s)://` or `ws(s)://`, host, port, and an optional path prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl {
    secure: bool,
    /// Everything after `://`, without a trailing slash.
    place: String,
}

impl FromStr for ServiceUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no address; give one such as http://127.0.0.1:8080");
        let url = Url::parse(text).map_err(|_| wrong())?;
        let secure = match url.scheme() {
            "http" | "ws" => false,
            "https" | "wss" => true,
            _ => return Err(wrong()),
        };
        let plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !plain || url.host_str().is_none_or(str::is_empty) {
            return Err(wrong());
        }
        let place = format!("{}{}", url.authority(), url.path());
        let place = place.trim_end_matches('/').to_owned();
        Ok(Self { secure, place })
    }
}

impl ServiceUrl {
    /// The URL of a path, which the address may already end with, for HTTP or WebSocket.
    pub fn at(&self, path: &str, scheme: UrlScheme) -> String {
        let scheme = match (scheme, self.secure) {
            (UrlScheme::Http, false) => "http",
            (UrlScheme::Http, true) => "https",
            (UrlScheme::WebSocket, false) => "ws",
            (UrlScheme::WebSocket, true) => "wss",
        };
        let place = self.place.strip_suffix(path).unwrap_or(&self.place);
        format!("{scheme}://{place}{path}")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlScheme {
    Http,
    WebSocket,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_each_spelling() {
        for (given, api) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/api/v1"),
            (
                "https://calls.example.com/",
                "https://calls.example.com/api/v1",
            ),
            (
                "http://[::1]:9/voice/api/v1/",
                "http://[::1]:9/voice/api/v1",
            ),
            (
                "wss://calls.example.com",
                "https://calls.example.com/api/v1",
            ),
        ] {
            let url: ServiceUrl = given.parse().expect("an address");
            assert_eq!(url.at("/api/v1", UrlScheme::Http), api, "{given}");
        }
        for wrong in [
            "",
            "127.0.0.1:8080",
            "ftp://host/",
            "http://",
            "http://me:pw@host/",
            "http://host/?a=b",
        ] {
            assert!(wrong.parse::<ServiceUrl>().is_err(), "{wrong:?} was taken");
        }
    }
}
