//! Addresses of tenants' servers, as text. The connection decides if their host may be dialled.

use std::fmt;

use sea_orm::DeriveValueType;
use serde::Serialize;
use url::Url;

/// The longest address, in characters, before and after normalisation.
pub const URL_LENGTH_MAX: usize = 2_048;
/// The longest host name and the longest label between two dots, in characters (RFC 1035 section 2.3.4).
const HOST_LENGTH_MAX: usize = 253;
const LABEL_LENGTH_MAX: usize = 63;

/// An https address (http where the operator allows it) without user info and fragment, normalised by the WHATWG URL rules.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, DeriveValueType)]
pub struct OutboundUrl(String);

/// The operator's exceptions from public https.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrlPolicy {
    /// Plain http is allowed.
    pub allow_http: bool,
}

/// The reason why an address was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("must be an absolute URL such as https://example.com/hooks")]
    Malformed,
    #[error(
        "must name a host: letters, digits and hyphens between dots, {LABEL_LENGTH_MAX} characters at most between two dots \
         and {HOST_LENGTH_MAX} in all"
    )]
    Host,
    #[error("must have at most {URL_LENGTH_MAX} characters")]
    TooLong,
    #[error("must begin with https://")]
    Insecure,
    #[error(
        "must not contain a user name or a password; the signature header authenticates the request"
    )]
    UserInfo,
    #[error("must not contain a fragment (#…)")]
    Fragment,
}

impl OutboundUrl {
    /// Parses and normalises.
    pub fn parse(text: &str, policy: UrlPolicy) -> Result<Self, UrlError> {
        if text.chars().count() > URL_LENGTH_MAX {
            return Err(UrlError::TooLong);
        }
        let plain = text.trim() == text && !text.chars().any(char::is_control);
        let url = Url::parse(text)
            .ok()
            .filter(|_| plain)
            .ok_or(UrlError::Malformed)?;
        match url.scheme() {
            "https" => {}
            "http" if policy.allow_http => {}
            _ => return Err(UrlError::Insecure),
        }
        if url.host_str().is_none_or(str::is_empty) || url.port() == Some(0) {
            return Err(UrlError::Malformed);
        }
        if url.domain().is_some_and(|name| !is_host_name(name)) {
            return Err(UrlError::Host);
        }
        // `https://@host` has an empty user name, which only the text shows, not the parsed form.
        let authority_end = text.find("://").map_or(0, |i| i + 3);
        let authority = text[authority_end..].split(['/', '?', '#', '\\']).next();
        if authority.is_some_and(|a| a.contains('@')) {
            return Err(UrlError::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(UrlError::Fragment);
        }
        if url.as_str().len() > URL_LENGTH_MAX {
            return Err(UrlError::TooLong);
        }
        Ok(Self(url.into()))
    }

    /// The normalised text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parsed form.
    pub fn to_url(&self) -> Url {
        Url::parse(&self.0).expect("an OutboundUrl was made from a parsed URL")
    }
}

#[cfg(feature = "openapi")]
crate::described! {
    OutboundUrl: super::schema::text()
        .max_length(Some(URL_LENGTH_MAX))
        .pattern(Some(super::schema::URL_PATTERN))
        .description(Some("https, public host, no user info, no fragment; stored normalised."));
}

/// True if a name, which may end with a dot, is a valid host name (RFC 1123 section 2.1). Underscores are allowed
/// too: they are invalid but in use.
pub fn is_host_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let letters = label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        let length = (1..=LABEL_LENGTH_MAX).contains(&label.len());
        letters && length && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= HOST_LENGTH_MAX && name.split('.').all(is_label)
}

impl fmt::Display for OutboundUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Shows only the origin, because the query of an address may hold tokens.
impl fmt::Debug for OutboundUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_url().origin().ascii_serialization())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HTTPS: UrlPolicy = UrlPolicy { allow_http: false };

    #[test]
    fn is_stored_normalised() {
        for (given, stored) in [
            ("https://Example.COM", "https://example.com/"),
            ("HTTPS://example.com:443/a/../b", "https://example.com/b"),
            ("https://2130706433/x", "https://127.0.0.1/x"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ] {
            assert_eq!(
                OutboundUrl::parse(given, HTTPS).map(|u| u.to_string()),
                Ok(stored.to_owned())
            );
        }
    }

    #[test]
    fn each_fault_has_its_name() {
        let long = format!("https://example.com/{}", "a".repeat(URL_LENGTH_MAX));
        let long_label = format!("https://{}.example.com/", "a".repeat(64));
        let long_name = format!("https://{}example.com/", "a.".repeat(122));
        for (given, error) in [
            ("http://example.com/", UrlError::Insecure),
            ("ftp://example.com/", UrlError::Insecure),
            ("example.com", UrlError::Malformed),
            ("", UrlError::Malformed),
            ("https://", UrlError::Malformed),
            ("https://exa mple.com/", UrlError::Malformed),
            (" https://example.com/", UrlError::Malformed),
            ("https://example.com:0/", UrlError::Malformed),
            ("https://user@example.com/", UrlError::UserInfo),
            ("https://@example.com/", UrlError::UserInfo),
            ("https://user:pw@example.com/", UrlError::UserInfo),
            ("https://example.com/#x", UrlError::Fragment),
            (long.as_str(), UrlError::TooLong),
            ("https://a..example.com/", UrlError::Host),
            ("https://.example.com/", UrlError::Host),
            ("https://example.com../", UrlError::Host),
            ("https://a;b.example.com/", UrlError::Host),
            ("https://a,b.example.com/", UrlError::Host),
            ("https://a$b.example.com/", UrlError::Host),
            ("https://-a.example.com/", UrlError::Host),
            ("https://a-.example.com/", UrlError::Host),
            (long_label.as_str(), UrlError::Host),
            (long_name.as_str(), UrlError::Host),
        ] {
            assert_eq!(OutboundUrl::parse(given, HTTPS), Err(error), "{given}");
        }
        assert!(OutboundUrl::parse("http://example.com/", UrlPolicy { allow_http: true }).is_ok());
        for right in [
            "https://example.com/a@b".to_owned(),
            "https://my_app.example.com./".to_owned(),
            "https://[2606:4700::1]/".to_owned(),
            format!("https://{}.example.com/", "a".repeat(63)),
            format!("https://{}example.com/", "a.".repeat(121)),
        ] {
            assert!(OutboundUrl::parse(&right, HTTPS).is_ok(), "{right}");
        }
    }
}
