//! The cookie by which a browser is known again.

use actix_web::{
    HttpRequest,
    http::header::{COOKIE, HeaderValue},
};

/// How far the clocks of two nodes may be apart, in milliseconds. What seems to have begun later than that from now was told by a
/// clock that was ahead and has been set right since: nobody can say how old it is, and it is over.
pub const CLOCKS_APART_MS: i64 = 5 * 60 * 1_000;
/// Browsers take a cookie whose name begins so only with TLS, from this very host, for all of its paths.
const HOST_ONLY: &str = "__Host-";

/// A cookie of a room's. Ports do not tell cookies apart, so that each room has a name of its own.
#[derive(Clone, Copy, Debug)]
pub struct Cookie {
    pub name: &'static str,
    /// Whether it is for https alone.
    pub secure: bool,
}

impl Cookie {
    fn full_name(self) -> String {
        let prefix = if self.secure { HOST_ONLY } else { "" };
        format!("{prefix}{}", self.name)
    }

    /// What a browser shows, in its order.
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

    /// The header that has a browser keep a value for so many seconds, or until it is closed.
    ///
    /// # Panics
    ///
    /// Where the value is no text for a header.
    pub fn keep(self, value: &str, seconds: Option<i64>) -> HeaderValue {
        let age = seconds.map_or_else(String::new, |seconds| format!("; Max-Age={seconds}"));
        let only_tls = if self.secure { "; Secure" } else { "" };
        let name = self.full_name();
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{only_tls}{age}");
        HeaderValue::from_str(&text).expect("tokens are letters, digits and signs")
    }

    /// The header that has a browser forget it.
    pub fn forget(self) -> HeaderValue {
        self.keep("", Some(0))
    }
}
