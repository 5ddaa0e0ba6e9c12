//! CSRF protection: a post must come from the same origin and carry a token of the session. Pure.

use actix_web::http::Uri;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use dikala_entities::Credential;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const KEY_BYTES: usize = 32;
/// The form field with the token.
pub const TOKEN_FIELD: &str = "_token";

/// The request's headers about its origin.
#[derive(Clone, Copy, Debug, Default)]
pub struct OriginHeaders<'a> {
    pub origin: Option<&'a str>,
    pub fetch_site: Option<&'a str>,
    pub host: Option<&'a str>,
}

/// True if a changing request comes from the service's own page. At least one of `Origin` and `Sec-Fetch-Site` must
/// be present, and neither may contradict. `base` is the public URL, if it is configured.
pub fn is_own(sent: OriginHeaders<'_>, base: Option<&str>) -> bool {
    let by_origin = sent.origin.map(|origin| {
        base.is_some_and(|base| base.eq_ignore_ascii_case(origin)) || is_of_host(origin, sent.host)
    });
    let by_site = sent.fetch_site.map(|site| site == "same-origin");
    match (by_origin, by_site) {
        (None, None) => false,
        (by_origin, by_site) => by_origin.unwrap_or(true) && by_site.unwrap_or(true),
    }
}

/// Compares the host, not the scheme, which a TLS-terminating proxy does not always report.
fn is_of_host(origin: &str, host: Option<&str>) -> bool {
    let uri = origin.parse::<Uri>().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    authority
        .zip(host)
        .is_some_and(|(authority, host)| authority.as_str().eq_ignore_ascii_case(host))
}

/// Creates and verifies the form tokens of one session.
#[derive(Clone)]
pub struct FormTokens([u8; KEY_BYTES]);

impl std::fmt::Debug for FormTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens(…)")
    }
}

impl FormTokens {
    /// The tokens of the session with this credential. They do not reveal it.
    pub fn of(session: &Credential) -> Self {
        let digest = Sha256::new()
            .chain_update("dikala form token")
            .chain_update(session.expose())
            .finalize();
        Self(digest.into())
    }

    /// A token for one form. Tokens are masked randomly, so that the compressed size of pages does not reveal them.
    pub fn make(&self) -> String {
        let pad: [u8; KEY_BYTES] = rand::random();
        let masked = self.0.iter().zip(pad).map(|(key, pad)| key ^ pad);
        let bytes: Vec<u8> = pad.into_iter().chain(masked).collect();
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// True if the token belongs to this session.
    pub fn know(&self, token: &str) -> bool {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(token) else {
            return false;
        };
        if bytes.len() != 2 * KEY_BYTES {
            return false;
        }
        let (pad, masked) = bytes.split_at(KEY_BYTES);
        let key: Vec<u8> = pad.iter().zip(masked).map(|(pad, it)| pad ^ it).collect();
        bool::from(key.ct_eq(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::SESSION_SCHEME;
    use rstest::rstest;

    use super::*;

    const BASE: Option<&str> = Some("https://voice.example");
    const HOST: &str = "127.0.0.1:8080";

    #[rstest]
    #[case::nothing_said(None, None, None, false)]
    #[case::own(Some("http://127.0.0.1:8080"), None, None, true)]
    #[case::own_behind_tls(Some("https://127.0.0.1:8080"), None, None, true)]
    #[case::own_by_site(None, Some("same-origin"), None, true)]
    #[case::own_by_both(Some("http://127.0.0.1:8080"), Some("same-origin"), None, true)]
    #[case::public(Some("https://voice.example"), None, BASE, true)]
    #[case::public_with_a_host_of_the_proxys(
        Some("https://voice.example"),
        Some("same-origin"),
        BASE,
        true
    )]
    #[case::another(Some("https://evil.example"), None, BASE, false)]
    #[case::another_port(Some("http://127.0.0.1:9090"), None, None, false)]
    #[case::no_port(Some("http://127.0.0.1"), None, None, false)]
    #[case::a_longer_name(Some("https://voice.example.evil.example"), None, BASE, false)]
    #[case::hidden(Some("null"), None, None, false)]
    #[case::hidden_on_the_same_site(Some("null"), Some("same-origin"), None, false)]
    #[case::typed(None, Some("none"), None, false)]
    #[case::a_sibling(None, Some("same-site"), BASE, false)]
    #[case::across(Some("http://127.0.0.1:8080"), Some("cross-site"), None, false)]
    fn posts(
        #[case] origin: Option<&str>,
        #[case] fetch_site: Option<&str>,
        #[case] base: Option<&str>,
        #[case] own: bool,
    ) {
        let sent = OriginHeaders {
            origin,
            fetch_site,
            host: Some(HOST),
        };
        assert_eq!(is_own(sent, base), own);
    }

    #[test]
    fn a_token_is_of_one_session_and_never_the_same() {
        let (one, two) = (SESSION_SCHEME.generate(), SESSION_SCHEME.generate());
        let tokens = FormTokens::of(&one);
        let token = tokens.make();
        assert!(tokens.know(&token) && FormTokens::of(&one).know(&token));
        assert_ne!(token, tokens.make());
        assert!(!FormTokens::of(&two).know(&token));
        for wrong in [
            "",
            "x",
            &token[1..],
            &format!("{token}A"),
            &token.replace(&token[..4], "AAAA"),
        ] {
            assert!(!tokens.know(wrong) || *wrong == token, "{wrong}");
        }
    }
}
