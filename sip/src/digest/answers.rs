//! Answers to the challenges of one request (RFC 3261, 22.3): a proxy and the server behind it may both challenge. Pure.

use super::{Authorization, Challenge, strongest};
use crate::{
    message::{SipRequest, SipResponse},
    settings::Credentials,
};

/// Challenges of one request that are answered: two proxies and a server, and a nonce of theirs that is stale.
const ANSWERS_MAX: usize = 4;
const AUTHORIZATION: &str = "Authorization";
const PROXY_AUTHORIZATION: &str = "Proxy-Authorization";

/// Why a challenge is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnansweredChallenge {
    /// It demands something else than a digest that we know.
    Unknown,
    /// The last answer has just been refused.
    Refused,
}

/// The challenges of servers (401) and of proxies (407), which are answered together.
#[derive(Debug, Clone, Default)]
pub struct ChallengeAnswers {
    held: Vec<HeldChallenge>,
    /// Repeated requests.
    repeated: usize,
}

#[derive(Debug, Clone)]
struct HeldChallenge {
    status: u16,
    challenge: Challenge,
    /// The number of uses of its nonce.
    uses: u32,
}

impl ChallengeAnswers {
    /// Keeps the challenge of a response. An answer that is refused although its nonce is fresh was wrong.
    pub fn accept(&mut self, response: &SipResponse) -> Result<(), UnansweredChallenge> {
        let status = response.status;
        let name = match status {
            401 => "WWW-Authenticate",
            407 => "Proxy-Authenticate",
            _ => return Err(UnansweredChallenge::Unknown),
        };
        let challenge = strongest(response.headers.all(name));
        let challenge = challenge.ok_or(UnansweredChallenge::Unknown)?;
        let is_again = |held: &HeldChallenge| {
            (held.status, &held.challenge.realm) == (status, &challenge.realm)
        };
        let before = self.held.iter().find(|held| is_again(held));
        if before.is_some_and(|before| before.uses == 1) && !challenge.stale {
            return Err(UnansweredChallenge::Refused);
        }
        // A realm that was good before belongs to another server, or challenges once more.
        self.held
            .retain(|held| held.status != status || (!is_again(held) && held.uses == 1));
        self.held.push(HeldChallenge {
            status,
            challenge,
            uses: 0,
        });
        Ok(())
    }

    /// Replaces the credentials of a request by answers to all challenges.
    pub fn prove(&mut self, request: &mut SipRequest, credentials: &Credentials, cnonce: &str) {
        let method = request.method.name().to_owned();
        let uri = request.uri.to_string();
        let headers = &mut request.headers;
        headers.remove(AUTHORIZATION);
        headers.remove(PROXY_AUTHORIZATION);
        for held in &mut self.held {
            held.uses += 1;
            let (challenge, uses) = (&held.challenge, held.uses);
            let proof = Authorization::to(challenge, credentials, &method, &uri, uses, cnonce);
            let name = match held.status {
                401 => AUTHORIZATION,
                _ => PROXY_AUTHORIZATION,
            };
            headers.push(name, &proof.to_string());
        }
    }

    /// The request with a new `CSeq` number and all credentials that its responses demand. `None` if the last response demands
    /// none, others than we can give, those that it had, or too many.
    pub fn repeat(
        &mut self,
        request: &SipRequest,
        response: &SipResponse,
        credentials: &Credentials,
        (number, cnonce): (u32, &str),
    ) -> Option<SipRequest> {
        if self.repeated == ANSWERS_MAX {
            return None;
        }
        self.accept(response).ok()?;
        self.repeated += 1;
        let mut again = request.clone();
        self.prove(&mut again, credentials, cnonce);
        let method = request.method.name();
        again.headers.set("CSeq", &format!("{number} {method}"));
        Some(again)
    }
}

#[cfg(test)]
mod tests {
    use super::{UnansweredChallenge::*, *};
    use crate::message::{Method, SipMessage, parse};

    fn challenge(status: u16, demand: &str) -> SipResponse {
        let name = match status {
            401 => "WWW-Authenticate",
            _ => "Proxy-Authenticate",
        };
        let text = format!("SIP/2.0 {status} No\r\n{name}: {demand}\r\n\r\n");
        match parse(text.as_bytes()).expect("a response") {
            SipMessage::Response(response) => response,
            SipMessage::Request(_) => panic!("a request"),
        }
    }

    fn digest(realm: &str, nonce: &str) -> String {
        format!("Digest realm=\"{realm}\", nonce=\"{nonce}\", qop=\"auth\"")
    }

    fn ours() -> Credentials {
        Credentials {
            username: "dikala".to_owned(),
            password: "rahasia".to_owned(),
        }
    }

    fn request() -> SipRequest {
        let uri = "sip:+62811@trunk.example".parse().expect("a URI");
        let mut request = SipRequest::new(Method::Invite, uri);
        request.headers.push("CSeq", "1 INVITE");
        request
    }

    /// The credentials in a request: header, nonce and count. Each must be right.
    fn proofs(request: &SipRequest) -> Vec<(&'static str, String, u32)> {
        let names = [AUTHORIZATION, PROXY_AUTHORIZATION];
        let all = names.into_iter().flat_map(|name| {
            let values = request.headers.all(name).map(move |value| (name, value));
            values.collect::<Vec<_>>()
        });
        let read = |(name, value): (&'static str, &str)| {
            let proof: Authorization = value.parse().expect("credentials");
            assert!(proof.proves("rahasia", request.method.name()), "{value}");
            let uses = proof.count.map_or(0, |(uses, _)| uses);
            (name, proof.nonce, uses)
        };
        all.map(read).collect()
    }

    type Step<'a> = (
        u16,
        &'a str,
        &'a str,
        bool,
        Option<&'a [(&'a str, &'a str, u32)]>,
    );

    /// Plays challenges, with the credentials of the next request.
    fn plays(steps: &[Step<'_>]) {
        let (mut answers, mut last) = (ChallengeAnswers::default(), request());
        for ((status, realm, nonce, stale, expected), number) in steps.iter().zip(2..) {
            let stale = if *stale { ", stale=true" } else { "" };
            let response = challenge(*status, &format!("{}{stale}", digest(realm, nonce)));
            let again = answers.repeat(&last, &response, &ours(), (number, "c"));
            let found = again.as_ref().map(proofs);
            let expected = expected.map(|expected| {
                let owned = expected.iter();
                let owned = owned.map(|(name, nonce, uses)| (*name, (*nonce).to_owned(), *uses));
                owned.collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{steps:?}, number {number}");
            if let Some(again) = again {
                let cseq = format!("{number} INVITE");
                assert_eq!(again.headers.get("CSeq"), Some(&*cseq));
                last = again;
            }
        }
    }

    #[test]
    fn a_proxy_and_the_server_behind_it_are_answered_together() {
        let (server, proxy) = (AUTHORIZATION, PROXY_AUTHORIZATION);
        plays(&[
            (407, "edge", "p", false, Some(&[(proxy, "p", 1)])),
            (
                401,
                "core",
                "s",
                false,
                Some(&[(server, "s", 1), (proxy, "p", 2)]),
            ),
            // Credentials that are refused are not sent again.
            (401, "core", "t", false, None),
        ]);
        // Both may have the same realm, and one of them may want a fresh nonce.
        plays(&[
            (401, "r", "s", false, Some(&[(server, "s", 1)])),
            (
                407,
                "r",
                "p",
                false,
                Some(&[(server, "s", 2), (proxy, "p", 1)]),
            ),
            (
                407,
                "r",
                "q",
                true,
                Some(&[(server, "s", 3), (proxy, "q", 1)]),
            ),
            (407, "r", "u", false, None),
        ]);
        // Two proxies, one behind the other.
        plays(&[
            (407, "one", "p", false, Some(&[(proxy, "p", 1)])),
            (
                407,
                "two",
                "q",
                false,
                Some(&[(proxy, "p", 2), (proxy, "q", 1)]),
            ),
            (407, "two", "u", false, None),
        ]);
    }

    #[test]
    fn nonces_that_are_always_stale_are_answered_a_few_times() {
        let (mut answers, request) = (ChallengeAnswers::default(), request());
        let stale = challenge(401, &format!("{}, stale=true", digest("r", "n")));
        let mut repeat = |number| answers.repeat(&request, &stale, &ours(), (number, "c"));
        let answered = (2..100).filter_map(&mut repeat).count();
        assert_eq!(answered, ANSWERS_MAX);
    }

    #[test]
    fn a_nonce_that_was_good_until_now_is_replaced() {
        let mut answers = ChallengeAnswers::default();
        let mut used = |status, realm: &str, nonce: &str| {
            let mut request = request();
            let accepted = answers.accept(&challenge(status, &digest(realm, nonce)));
            answers.prove(&mut request, &ours(), "c");
            let nonces = proofs(&request).into_iter().map(|(_, nonce, _)| nonce);
            accepted.map(|()| nonces.collect::<Vec<_>>())
        };
        let nonces = |nonces: &[&str]| Ok(nonces.iter().map(|it| (*it).to_owned()).collect());
        assert_eq!(used(407, "edge", "p"), nonces(&["p"]));
        assert_eq!(used(401, "core", "s"), nonces(&["s", "p"]));
        assert_eq!(used(401, "core", "t"), Err(Refused));
        // It was used a second time.
        assert_eq!(used(401, "core", "t"), nonces(&["t", "p"]));
        assert_eq!(used(407, "edge", "q"), nonces(&["t", "q"]));
        // Another server, which would read the old credentials first.
        assert_eq!(used(401, "other", "u"), nonces(&["u", "q"]));
    }

    #[test]
    fn other_demands_are_not_answered() {
        let mut answers = ChallengeAnswers::default();
        for (status, demand) in [
            (401, "Basic realm=\"r\""),
            (
                407,
                "Digest realm=\"r\", nonce=\"n\", algorithm=SHA-512-256",
            ),
            (403, "Digest realm=\"r\", nonce=\"n\""),
        ] {
            let accepted = answers.accept(&challenge(status, demand));
            assert_eq!(accepted, Err(Unknown), "{demand}");
        }
    }
}
