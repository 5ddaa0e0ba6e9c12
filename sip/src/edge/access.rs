//! Access control: admits trunks by their addresses, registrars that we are registered with, and users who authenticate by
//! digest.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::stateless::{StatelessResponse, answer, refused};
use crate::{
    digest::{
        self, Algorithm, Authorization, Challenge,
        nonces::{NonceUse, Nonces},
    },
    limits::{
        guesses::{Guesses, IdentityClaim, PasswordVerdict},
        known_peers::{KnownPeers, PeerOwner},
    },
    message::SipRequest,
    settings::{SipTransport, Trunk},
    shared::Shared,
    transport::Flow,
    trunks,
};

const CHALLENGE: &str = "Proxy-Authenticate";
/// When a peer may try again after too many wrong passwords.
const BLOCKED_SECONDS: &str = "60";

#[derive(Debug)]
pub struct AccessControl {
    shared: Arc<Shared>,
    nonces: Nonces,
    guesses: Mutex<Guesses>,
    known: Mutex<KnownPeers>,
    begun: Instant,
}

impl AccessControl {
    pub fn new(shared: Arc<Shared>) -> Self {
        let now = Instant::now();
        Self {
            shared,
            nonces: Nonces::new(rand::random(), now),
            guesses: Mutex::default(),
            known: Mutex::default(),
            begun: now,
        }
    }

    fn second(&self) -> u64 {
        self.begun.elapsed().as_secs()
    }

    fn known(&self) -> MutexGuard<'_, KnownPeers> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guesses(&self) -> MutexGuard<'_, Guesses> {
        self.guesses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the peer of the call with this Call-ID.
    pub fn remember(&self, flow: &Flow, call: &str) {
        let owner = PeerOwner::Call(call.to_owned());
        self.known().remember(flow.remote, &owner, self.second());
    }

    /// True if a trunk calls from this address over this transport.
    pub fn is_address_of_trunk(&self, ip: IpAddr, transport: SipTransport) -> bool {
        trunks::admits(&self.shared.settings.trunks, ip, transport)
    }

    /// True if a trunk calls from this address over this transport, or a peer there was admitted lately.
    pub fn knows_host(&self, ip: IpAddr, transport: SipTransport) -> bool {
        self.is_address_of_trunk(ip, transport) || self.known().has_host(ip, self.second())
    }

    /// True if this very peer may call, or has authenticated lately.
    pub fn is_proven(&self, flow: &Flow) -> bool {
        self.is_address_of_trunk(flow.remote.ip(), flow.transport)
            || self.known().has(flow.remote, self.second())
            || self.shared.registrars.have(flow.remote.ip())
    }

    /// The trunk that may call, and whether its caller identity is trusted.
    pub fn caller(
        &self,
        request: &SipRequest,
        flow: &Flow,
    ) -> Result<(&Trunk, bool), StatelessResponse> {
        let all = &self.shared.settings.trunks;
        let called = &request.uri.user;
        if let Some(trunk) = trunks::by_address(all, flow.remote.ip(), flow.transport, called) {
            return Ok((trunk, true));
        }
        if let Some(trunk) = self.shared.registrars.trunk_of(all, flow, called) {
            return Ok((trunk, true));
        }
        if !trunks::any_digest(all) {
            self.note("", (403, "address"), request, flow, None);
            let words = match trunks::has_address(all, flow.remote.ip()) {
                true => "the trunk of this address calls over TLS only",
                false => "no trunk allows this address",
            };
            return Err(refused(403, "Forbidden", words));
        }
        let proof = ["Proxy-Authorization", "Authorization"]
            .iter()
            .flat_map(|name| request.headers.all(name))
            .find_map(|value| {
                value
                    .parse::<Authorization>()
                    .ok()
                    .filter(|proof| proof.realm == self.shared.user_agent.name)
            });
        match proof {
            Some(proof) => Ok((self.proven(request, flow, &proof)?, false)),
            None => {
                // The first INVITE of a phone that knows a password has no credentials either.
                if !self.knows_host(flow.remote.ip(), flow.transport) {
                    self.note("", (407, "credentials"), request, flow, None);
                }
                Err(self.challenge(request, flow, false))
            }
        }
    }

    /// The trunk whose password these credentials prove.
    fn proven(
        &self,
        request: &SipRequest,
        flow: &Flow,
        proof: &Authorization,
    ) -> Result<&Trunk, StatelessResponse> {
        let (ip, now) = (flow.remote.ip(), Instant::now());
        // Only a fresh nonce proves the source address, so a peer cannot get another's address blocked.
        if self.nonces.look(&proof.nonce, ip, now) == NonceUse::Stale {
            return Err(self.challenge(request, flow, true));
        }
        let all = &self.shared.settings.trunks;
        let trunk = self.compared(all, request, flow, proof)?;
        if !proof.is_for(&request.uri) {
            let words = "the credentials are for another Request-URI";
            self.note(&trunk.name, (400, "uri"), request, flow, None);
            return Err(refused(400, "Bad Request", words));
        }
        // A client without a nonce count (RFC 2069) has used up the nonce.
        let count = proof.count.as_ref().map_or(u32::MAX, |(count, _)| *count);
        if self.nonces.count(&proof.username, &proof.nonce, count, now) == NonceUse::Stale {
            return Err(self.challenge(request, flow, true));
        }
        self.known()
            .remember_user(flow.remote, &proof.username, self.second());
        Ok(trunk)
    }

    /// The trunk of this user, if the password is right. After too many wrong ones it is not checked.
    fn compared<'a>(
        &self,
        all: &'a [Trunk],
        request: &SipRequest,
        flow: &Flow,
        proof: &Authorization,
    ) -> Result<&'a Trunk, StatelessResponse> {
        let (ip, second) = (flow.remote.ip(), self.second());
        let found = trunks::by_username(all, &proof.username);
        let name = found.map_or("", |(trunk, _)| trunk.name.as_str());
        let claim = IdentityClaim {
            ip,
            // All unknown usernames count as one.
            user: found.map_or("", |_| proof.username.as_str()),
            is_known_here: self.known().has_user(ip, &proof.username, second),
        };
        let user = Some(proof.username.as_str());
        let verdict = self.guesses().verdict(claim, second);
        if verdict == PasswordVerdict::Blocked {
            self.note(name, (403, "blocked"), request, flow, user);
            let words = "too many wrong passwords came from this address; try again in a minute";
            let answer = refused(403, "Forbidden", words);
            return Err(answer.with("Retry-After", BLOCKED_SECONDS.to_owned()));
        }
        let (trunk, password) = found.unzip();
        // An unknown username takes as long as a known one.
        let proves = proof.proves(password.unwrap_or_default(), request.method.name());
        match trunk.filter(|_| proves && verdict == PasswordVerdict::Compare) {
            Some(trunk) => Ok(trunk),
            None => {
                self.guesses().wrong(claim, second);
                self.note(name, (407, "password"), request, flow, user);
                Err(self.challenge(request, flow, false))
            }
        }
    }

    fn note(
        &self,
        trunk: &str,
        why: (u16, &'static str),
        request: &SipRequest,
        flow: &Flow,
        user: Option<&str>,
    ) {
        let ip = flow.remote.ip();
        self.shared
            .refusals
            .note(trunk, why, ip, &request.headers, user);
    }

    fn challenge(&self, request: &SipRequest, flow: &Flow, stale: bool) -> StatelessResponse {
        let nonce = self.nonces.make(flow.remote.ip(), Instant::now());
        let demand = |algorithm| {
            let challenge = Challenge {
                realm: self.shared.user_agent.name.to_owned(),
                nonce: nonce.clone(),
                opaque: None,
                algorithm,
                counted: true,
                stale,
            };
            challenge.to_string()
        };
        let agent = request.headers.get("User-Agent").unwrap_or_default();
        let demanded =
            answer(407, "Proxy Authentication Required").with(CHALLENGE, demand(Algorithm::Md5));
        if digest::takes_a_choice(agent) {
            return demanded.with(CHALLENGE, demand(Algorithm::Sha256));
        }
        demanded
    }
}
