//! Operators' browser sessions. The cookie holds the whole session, sealed with `secrets.key`: its start, its last
//! use, and the hash of the token that began it.
//!
//! A session therefore works on every node behind a load balancer, and while the database is away, when operators
//! need it. It ends with its token. A sign-out is stored as a row (`ended`).

use actix_web::{
    HttpRequest,
    http::header::{HeaderValue, ORIGIN},
};
use dikala_entities::{
    Credential, CredentialHash, Millis, SESSION_SCHEME, Secret, SecretPlace, Vault,
};

use crate::{
    operator::access::{OperatorTokens, Right},
    pages::{
        cookie::{CLOCKS_APART_MS, Cookie},
        headers::header,
        session::{self, LONGEST_MS, NOTE_MS, TOUCH_EVERY_MS},
    },
};

const COOKIE: &str = "dikala-operator";
/// Cookie of a secret that is shown once.
const NOTE: &str = "dikala-operator-note";
/// The identity of a browser: a session, or only an id that its forms are bound to.
#[derive(Clone, Debug)]
pub struct BrowserIdentity {
    pub id: Credential,
    pub session: Option<ConsoleSession>,
    /// The variant of the cookie that the browser sent.
    cookie: Cookie,
    /// A sealed secret that is shown once.
    note: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ConsoleSession {
    id: Credential,
    began: Millis,
    used: Millis,
    token: CredentialHash,
}

/// The cookie of this name, for HTTPS only or not.
const fn cookie(name: &'static str, secure: bool) -> Cookie {
    Cookie { name, secure }
}

impl BrowserIdentity {
    /// The identity in a request's cookies. The header sets a new id, if the browser sent none.
    pub fn of(request: &HttpRequest, vault: &Vault) -> (Self, Option<HeaderValue>) {
        for secure in [true, false] {
            let cookie = cookie(COOKIE, secure);
            for shown in cookie.shown(request) {
                let (id, sealed) = shown.split_once('.').unwrap_or((shown, ""));
                if let Some(id) = SESSION_SCHEME.parse(id) {
                    let session = ConsoleSession::open(vault, id.clone(), sealed);
                    let notes = self::cookie(NOTE, secure).shown(request);
                    let known = Self {
                        id,
                        session,
                        cookie,
                        note: notes.first().map(|note| (*note).to_owned()),
                    };
                    return (known, None);
                }
            }
        }
        let cookie = cookie(COOKIE, false);
        let id = SESSION_SCHEME.generate();
        let header = cookie.keep(id.expose(), None);
        let known = Self {
            id,
            session: None,
            cookie,
            note: None,
        };
        (known, Some(header))
    }

    /// The header that records the session's use, if the last record is old enough.
    pub fn touched(&self, vault: &Vault, now: Millis) -> Option<HeaderValue> {
        let session = self.session.as_ref()?;
        let is_due = now.since(session.used) >= TOUCH_EVERY_MS;
        let used = ConsoleSession {
            used: now,
            ..session.clone()
        };
        is_due.then(|| used.keep(vault, self.cookie))
    }

    /// The header that deletes the session's cookie.
    pub fn forget(&self) -> HeaderValue {
        self.cookie.forget()
    }

    /// The header that stores a secret for the next page only. `about` is its key.
    pub fn leave_note(
        &self,
        vault: &Vault,
        about: &str,
        text: &Secret,
        now: Millis,
    ) -> HeaderValue {
        let note = session::note(about, text, now);
        let sealed = vault.seal(SecretPlace::OperatorNote, self.id.hash(), &note);
        self.note_cookie().keep(&sealed, Some(NOTE_MS / 1_000))
    }

    /// The note with this key, if the browser sent one that has not expired.
    pub fn note(&self, vault: &Vault, about: &str, now: Millis) -> Option<Secret> {
        let sealed = self.note.as_deref()?;
        let place = SecretPlace::OperatorNote;
        let note = vault.open(place, self.id.hash(), sealed).ok()?;
        session::text_of(&note, about, now)
    }

    /// The header that deletes the note.
    pub fn forget_note(&self) -> HeaderValue {
        self.note_cookie().forget()
    }

    fn note_cookie(&self) -> Cookie {
        cookie(NOTE, self.cookie.secure)
    }
}

impl ConsoleSession {
    /// Begins a session after the token was verified; the header sets its cookie. The browser, not a proxy, says
    /// whether it used HTTPS, because a TLS-terminating proxy may send no header.
    pub fn begin(
        request: &HttpRequest,
        vault: &Vault,
        token: &CredentialHash,
        now: Millis,
    ) -> HeaderValue {
        let origin = header(request.headers(), &ORIGIN).unwrap_or_default();
        let secure = origin.starts_with("https://");
        let session = Self {
            id: SESSION_SCHEME.generate(),
            began: now,
            used: now,
            token: token.clone(),
        };
        session.keep(vault, cookie(COOKIE, secure))
    }

    /// The hash under which a sign-out is stored.
    pub fn hash(&self) -> CredentialHash {
        self.id.hash()
    }

    /// The hash of the token that began it.
    pub fn token(&self) -> &CredentialHash {
        &self.token
    }

    /// Its access right, unless it was signed out.
    pub fn right(&self, tokens: &OperatorTokens, now: Millis) -> Option<Right> {
        let is_ahead = self.used > now.plus_ms(CLOCKS_APART_MS);
        let is_over = now >= session::end(self.began, self.used) || is_ahead;
        match is_over {
            true => None,
            false => tokens.right_of_hash(&self.token),
        }
    }

    fn keep(&self, vault: &Vault, cookie: Cookie) -> HeaderValue {
        let (began, used) = (self.began.as_i64(), self.used.as_i64());
        let plain = Secret::new(format!("{began} {used} {}", self.token));
        let sealed = vault.seal(SecretPlace::OperatorSession, self.id.hash(), &plain);
        let value = format!("{}.{sealed}", self.id.expose());
        cookie.keep(&value, Some(LONGEST_MS / 1_000))
    }

    fn open(vault: &Vault, id: Credential, sealed: &str) -> Option<Self> {
        let plain = vault.open(SecretPlace::OperatorSession, id.hash(), sealed);
        let plain = plain.ok()?;
        let mut parts = plain.expose().split(' ');
        let mut moment = || Some(Millis::from_i64(parts.next()?.parse().ok()?));
        let (began, used) = (moment()?, moment()?);
        let token = CredentialHash::from_hash(parts.next()?);
        Some(Self {
            id,
            began,
            used,
            token,
        })
    }
}

#[cfg(test)]
mod tests {
    use actix_web::{http::header::COOKIE as SENT, test::TestRequest};

    use super::*;

    const FULL: &str = "the-full-one-0001";
    const READ: &str = "the-read-one-0001";
    const HOUR_MS: i64 = 60 * 60 * 1_000;

    fn tokens(full: &str, read: &str) -> OperatorTokens {
        OperatorTokens {
            full: Some(Secret::new(full)),
            read: Some(Secret::new(read)),
        }
    }

    fn vault() -> Vault {
        Vault::from_base64(&Vault::generate_key()).expect("a key")
    }

    fn now() -> Millis {
        Millis::from_i64(1_800_000_000_000)
    }

    /// A request with the cookie that a header set.
    fn showing(kept: &HeaderValue) -> HttpRequest {
        let kept = kept.to_str().expect("text").split(';').next();
        let shown = (SENT, kept.expect("a cookie"));
        TestRequest::default()
            .insert_header(shown)
            .to_http_request()
    }

    /// The identity of a browser with the cookie that a header set.
    fn known(vault: &Vault, kept: &HeaderValue) -> BrowserIdentity {
        let (known, fresh) = BrowserIdentity::of(&showing(kept), vault);
        assert!(fresh.is_none());
        known
    }

    fn begun(vault: &Vault, token: &str) -> BrowserIdentity {
        let request = TestRequest::default().to_http_request();
        let kept = ConsoleSession::begin(&request, vault, &CredentialHash::of(token), now());
        known(vault, &kept)
    }

    #[test]
    fn a_session_has_the_right_of_its_token_and_ends_with_it() {
        let vault = vault();
        for (token, right) in [
            (FULL, Some(Right::Full)),
            (READ, Some(Right::Read)),
            ("another", None),
        ] {
            let session = begun(&vault, token).session.expect("a session");
            assert_eq!(session.right(&tokens(FULL, READ), now()), right);
            assert_eq!(session.right(&tokens("new", "newer"), now()), None);
        }
        // The session's token has become the read token.
        let session = begun(&vault, FULL).session.expect("a session");
        let swapped = tokens(READ, FULL);
        assert_eq!(session.right(&swapped, now()), Some(Right::Read));
    }

    #[test]
    fn a_session_ends_unused_and_in_any_case() {
        let (vault, tokens) = (vault(), tokens(FULL, READ));
        let after = |hours: i64| now().plus_ms(hours * HOUR_MS);
        let mut known = begun(&vault, FULL);
        let holds = |known: &BrowserIdentity, hours| {
            let session = known.session.as_ref().expect("a session");
            session.right(&tokens, after(hours)).is_some()
        };
        assert!(holds(&known, 11) && !holds(&known, 12));
        assert!(!holds(&known, -1), "begun by a clock that was ahead");
        assert!(known.touched(&vault, now().plus_ms(59_000)).is_none());
        for day in 1..=28 {
            let kept = known.touched(&vault, after(day * 11)).expect("used");
            known = self::known(&vault, &kept);
        }
        let end = 14 * 24;
        assert!(holds(&known, 28 * 11 + 11) && !holds(&known, end));
    }

    #[test]
    fn what_was_not_sealed_here_is_no_session() {
        let (vault, other) = (vault(), vault());
        let request = TestRequest::default().to_http_request();
        let kept = ConsoleSession::begin(&request, &other, &CredentialHash::of(FULL), now());
        assert!(known(&vault, &kept).session.is_none());
        // A session with an exchanged id is invalid as well.
        let kept = ConsoleSession::begin(&request, &vault, &CredentialHash::of(FULL), now());
        let text = kept.to_str().expect("text");
        let (name, rest) = text.split_once('=').expect("a cookie");
        let (_, sealed) = rest.split_once('.').expect("sealed");
        let forged = format!("{name}={}.{sealed}", SESSION_SCHEME.generate().expose());
        let forged = HeaderValue::from_str(&forged).expect("text");
        assert!(known(&vault, &forged).session.is_none());
    }

    #[test]
    fn a_note_is_for_one_session_and_one_thing_and_a_moment() {
        let vault = vault();
        let (mut mine, mut other) = (begun(&vault, FULL), begun(&vault, FULL));
        let left = mine.leave_note(&vault, "key_1", &Secret::new("dkl_x y"), now());
        let left = left.to_str().expect("text").split(';').next();
        let sealed = left
            .and_then(|left| left.split_once('='))
            .map(|(_, it)| it.to_owned());
        mine.note.clone_from(&sealed);
        other.note = sealed;
        let note = |known: &BrowserIdentity, about, at| {
            let note = known.note(&vault, about, at);
            note.map(|note| note.expose().to_owned())
        };
        assert_eq!(note(&mine, "key_1", now()).as_deref(), Some("dkl_x y"));
        assert_eq!(note(&mine, "key_2", now()), None);
        assert_eq!(note(&other, "key_1", now()), None);
        assert_eq!(note(&mine, "key_1", now().plus_ms(NOTE_MS)), None);
    }
}
