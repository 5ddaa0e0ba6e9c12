//! What somebody may do who has not shown a valid key or token: a number of requests a minute for each address, whichever way in
//! he tries. A credential that is well made and was never seen to be good counts before it is looked up, so that guessing
//! costs the database nothing.

use std::{fmt, net::IpAddr};

use actix_web::HttpRequest;
use dashmap::{DashMap, Entry};
use dikala_entities::{CredentialHash, Millis};
use moka::sync::Cache;
use tokio::sync::watch;

use super::rate::Limiter;
use crate::{
    front::{client_address, network},
    http::{error::ApiError, settings::HttpSettings},
};

const ADDRESSES_MAX: usize = 50_000;
/// Credentials that were good when they were last looked up: they are looked up again whatever others do at their address.
const PROVEN_MAX: u64 = 100_000;

/// Somebody of whom nothing is known but his address.
#[derive(Clone, Copy, Debug)]
pub struct Stranger {
    /// None: there is no connection, as in a test.
    address: Option<IpAddr>,
    /// Requests a minute.
    limit: u32,
    now: Millis,
}

/// The address that a request comes from; none where there is no connection, as in a test.
pub fn address_of(request: &HttpRequest, settings: &HttpSettings) -> Option<IpAddr> {
    let peer = request.peer_addr()?;
    let trusted = &settings.trusted_proxies;
    Some(client_address(peer.ip(), request.headers(), trusted))
}

impl Stranger {
    /// Who made the request.
    pub fn of(request: &HttpRequest, settings: &HttpSettings, now: Millis) -> Self {
        Self {
            address: address_of(request, settings).map(network),
            limit: settings.unauthenticated_per_minute,
            now,
        }
    }
}

impl Stranger {
    fn count(&self, of: &Limiter<IpAddr>) -> Result<(), ApiError> {
        let Some(address) = self.address else {
            return Ok(());
        };
        let verdict = of.count(address, self.limit, self.now);
        match verdict.allowed {
            true => Ok(()),
            false => Err(ApiError::RateLimited {
                retry_after_seconds: verdict.retry_after_seconds(self.now),
            }),
        }
    }

    fn give_back(&self, of: &Limiter<IpAddr>) {
        if let Some(address) = self.address {
            of.give_back(&address);
        }
    }
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}

/// What strangers did in the last minute.
#[derive(Debug)]
pub struct Strangers {
    /// Of each address what was refused.
    refused: Limiter<IpAddr>,
    /// Of each address the credentials that were looked up and not found.
    guessed: Limiter<IpAddr>,
    proven: Cache<CredentialHash, ()>,
    /// Credentials that were never seen to be good and are being looked up, each by one request; others wait for what it finds.
    trying: DashMap<CredentialHash, watch::Sender<Found>>,
}

/// What came of a look-up that others wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Found {
    /// Nothing: it is under way, or was given up.
    #[default]
    Nothing,
    /// The database is away.
    Away,
}

/// The one look-up of a credential, until it ends or nobody waits for it any more.
struct Try<'a> {
    all: &'a DashMap<CredentialHash, watch::Sender<Found>>,
    hash: CredentialHash,
}

impl Try<'_> {
    fn tell(&self, found: Found) {
        if let Some(trying) = self.all.get(&self.hash) {
            trying.send_replace(found);
        }
    }
}

impl Drop for Try<'_> {
    fn drop(&mut self) {
        self.all.remove(&self.hash);
    }
}

impl Default for Strangers {
    fn default() -> Self {
        Self {
            refused: Limiter::new(ADDRESSES_MAX),
            guessed: Limiter::new(ADDRESSES_MAX),
            proven: Cache::new(PROVEN_MAX),
            trying: DashMap::new(),
        }
    }
}

impl Strangers {
    /// Looks the credential with that hash up, unless its address has guessed too often. `is_refusal`: the credential is not a
    /// good one, and it is not a fault of ours that it was not found.
    pub async fn look_up<T, E: From<ApiError>>(
        &self,
        stranger: &Stranger,
        hash: CredentialHash,
        found: impl Future<Output = Result<T, E>>,
        is_refusal: fn(&E) -> bool,
    ) -> Result<T, E> {
        let Some(attempt) = self.attempt(stranger, &hash).await? else {
            let found = found.await;
            return found.map_err(|error| match is_refusal(&error) {
                true => {
                    self.proven.invalidate(&hash);
                    self.refused(stranger, error)
                }
                false => error,
            });
        };
        match found.await {
            Err(error) if is_refusal(&error) => Err(self.refused(stranger, error)),
            found => {
                stranger.give_back(&self.guessed);
                if found.is_ok() {
                    self.proven.insert(hash, ());
                } else {
                    attempt.tell(Found::Away);
                }
                found
            }
        }
    }

    /// None for a credential that was good before; else the right to look it up, which counts as a guess. However many ask with
    /// the same one at once, one of them looks it up: a program that makes many requests at once is no guesser, and a node that
    /// has just started has seen nobody's credential yet.
    async fn attempt(
        &self,
        stranger: &Stranger,
        hash: &CredentialHash,
    ) -> Result<Option<Try<'_>>, ApiError> {
        loop {
            if self.proven.contains_key(hash) {
                return Ok(None);
            }
            let mut trying = match self.trying.entry(hash.clone()) {
                Entry::Occupied(trying) => trying.get().subscribe(),
                Entry::Vacant(none) => {
                    stranger.count(&self.guessed)?;
                    none.insert(watch::Sender::default());
                    return Ok(Some(Try {
                        all: &self.trying,
                        hash: hash.clone(),
                    }));
                }
            };
            // It ends with the one that looks it up, which tells before that where it could not be looked up.
            if trying.wait_for(|found| *found == Found::Away).await.is_ok() {
                return Err(ApiError::Unavailable);
            }
        }
    }

    /// What somebody gets who is not let in: `error`, or that he asks too often.
    pub fn refused<E: From<ApiError>>(&self, stranger: &Stranger, error: E) -> E {
        stranger.count(&self.refused).err().map_or(error, E::from)
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::{API_KEY_SCHEME, Credential};

    use super::*;

    fn stranger(limit: u32) -> Stranger {
        Stranger {
            address: Some("192.0.2.1".parse().expect("an address")),
            limit,
            now: Millis::from_i64(1_800_000_000_000),
        }
    }

    async fn try_out(
        strangers: &Strangers,
        stranger: Stranger,
        key: &Credential,
        found: Result<(), ApiError>,
    ) -> (Result<(), ApiError>, bool) {
        let mut asked = false;
        let look_up = async {
            asked = true;
            found
        };
        let refusal = |error: &ApiError| *error == ApiError::InvalidApiKey;
        let answer = strangers
            .look_up(&stranger, key.hash(), look_up, refusal)
            .await;
        (answer, asked)
    }

    #[actix_web::test]
    async fn guessed_keys_stop_reaching_the_database() {
        let strangers = Strangers::default();
        let guess = || API_KEY_SCHEME.generate();
        for _ in 0..3 {
            let found = Err(ApiError::InvalidApiKey);
            let tried = try_out(&strangers, stranger(3), &guess(), found).await;
            assert_eq!(tried, (Err(ApiError::InvalidApiKey), true));
        }
        let (answer, asked) = try_out(&strangers, stranger(3), &guess(), Ok(())).await;
        assert!(matches!(answer, Err(ApiError::RateLimited { .. })));
        assert!(!asked, "nothing was looked up");
    }

    #[actix_web::test]
    async fn a_good_key_is_not_hurt_by_who_guesses_beside_it() {
        let strangers = Strangers::default();
        let good = API_KEY_SCHEME.generate();
        let guess = API_KEY_SCHEME.generate();
        assert_eq!(
            try_out(&strangers, stranger(1), &good, Ok(())).await.0,
            Ok(())
        );
        let wrong = Err(ApiError::InvalidApiKey);
        for _ in 0..3 {
            let _ = try_out(&strangers, stranger(1), &guess, wrong.clone()).await;
        }
        assert_eq!(
            try_out(&strangers, stranger(1), &good, Ok(())).await.0,
            Ok(())
        );
        // Until it is good no more.
        let (answer, asked) = try_out(&strangers, stranger(1), &good, wrong).await;
        assert!(asked && matches!(answer, Err(ApiError::RateLimited { .. })));
        assert!(!try_out(&strangers, stranger(1), &good, Ok(())).await.1);
    }

    #[actix_web::test]
    async fn a_new_key_is_not_hurt_by_who_has_none() {
        let strangers = Strangers::default();
        let refused = || strangers.refused(&stranger(1), ApiError::MissingApiKey);
        assert_eq!(refused(), ApiError::MissingApiKey);
        assert!(matches!(refused(), ApiError::RateLimited { .. }));
        let new = API_KEY_SCHEME.generate();
        assert_eq!(
            try_out(&strangers, stranger(1), &new, Ok(())).await.0,
            Ok(())
        );
    }

    #[actix_web::test]
    async fn a_database_that_is_away_is_nobodys_fault() {
        let strangers = Strangers::default();
        let key = API_KEY_SCHEME.generate();
        for _ in 0..5 {
            let away = Err(ApiError::Unavailable);
            let tried = try_out(&strangers, stranger(1), &key, away).await;
            assert_eq!(tried, (Err(ApiError::Unavailable), true));
        }
    }

    /// A node that has just started is asked by a program that has a good key, many times at once.
    #[actix_web::test]
    async fn a_good_key_that_comes_many_times_at_once_is_no_guess() {
        let strangers = Strangers::default();
        let outcome = async |found: Result<(), ApiError>| {
            let key = API_KEY_SCHEME.generate();
            let is_read = tokio::sync::watch::Sender::new(false);
            let one = async || {
                let mut read = is_read.subscribe();
                let found = async {
                    read.wait_for(|read| *read).await.expect("it is read");
                    found.clone()
                };
                let refusal = |error: &ApiError| *error == ApiError::InvalidApiKey;
                strangers
                    .look_up(&stranger(3), key.hash(), found, refusal)
                    .await
            };
            let all = futures_util::future::join_all((0..10).map(|_| one()));
            let read = async { is_read.send_replace(true) };
            futures_util::future::join(all, read).await.0
        };
        assert_eq!(outcome(Ok(())).await, vec![Ok(()); 10]);
        let away = Err(ApiError::Unavailable);
        assert_eq!(outcome(away.clone()).await, vec![away; 10]);
        let wrong = outcome(Err(ApiError::InvalidApiKey)).await;
        let looked_up = wrong
            .iter()
            .filter(|one| **one == Err(ApiError::InvalidApiKey));
        assert_eq!(looked_up.count(), 3, "{wrong:?}");
    }
}
