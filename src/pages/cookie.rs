//! The cookie that identifies a browser.

use actix_web::{
    HttpRequest,
    http::header::{COOKIE, HeaderValue},
};

/// Maximum clock difference between two nodes, in milliseconds. A session from further in the future was begun
/// under a wrong clock: its age is unknown, so it counts as over.
pub const CLOCKS_APART_MS: i64 = 5 * 60 * 1_000;
/// Browsers accept a cookie with this prefix only over TLS, for this host, and for all paths.
const HOST_ONLY: &str = "__Host-";

/// A cookie of the dashboard or console. Cookies are shared between ports, so each has its own name.
#[derive(Clone, Copy, Debug)]
pub struct Cookie {
    pub name: &'static str,
    /// True if the cookie is sent over HTTPS only.
    pub secure: bool,
}

impl Cookie {
    fn full_name(self) -> String {
        let prefix = if self.secure { HOST_ONLY } else { "" };
        format!("{prefix}{}", self.name)
    }

    /// The values that a browser sends, in its order.
    pub fn shown(self, request: &HttpRequest) -> Vec<&str> {
        let name = self.full_name();
        let pairs = request
            .headers()
            .get_all(&COOKIE)
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        pairs
            .filter(|(key, _)| *key == name)
            .map(|(_, value)| value)
            .collect()
    }

    /// The header that sets the cookie for `seconds`, or until the browser closes.
    ///
    /// # Panics
    ///
    /// If the value is not valid in a header.
    pub fn keep(self, value: &str, seconds: Option<i64>) -> HeaderValue {
        let age = seconds.map_or_else(String::new, |seconds| format!("; Max-Age={seconds}"));
        let only_tls = if self.secure { "; Secure" } else { "" };
        let name = self.full_name();
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{only_tls}{age}");
        HeaderValue::from_str(&text).expect("tokens are letters, digits and signs")
    }

    /// The header that deletes the cookie.
    pub fn forget(self) -> HeaderValue {
        self.keep("", Some(0))
    }
}
