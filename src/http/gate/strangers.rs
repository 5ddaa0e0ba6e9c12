//! Limits for clients without a valid key or token: requests per minute and network address, over all ways to
//! authenticate. A well-formed credential that never was valid counts before it is looked up, so that guessing costs
//! the database nothing.

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
/// Requests of one network address for widgets and examples within a minute. Many visitors may share one.
const VISITS_MAX: u32 = 600;
/// Recently valid credentials that are remembered. They are looked up regardless of failures at their address.
const PROVEN_MAX: u64 = 100_000;

/// An unauthenticated client.
#[derive(Clone, Copy, Debug)]
pub struct UnknownClient {
    /// None without a connection, as in a test.
    address: Option<IpAddr>,
    /// Requests a minute.
    limit: u32,
    now: Millis,
}

/// The client's address; none without a connection, as in a test.
pub fn address_of(request: &HttpRequest, settings: &HttpSettings) -> Option<IpAddr> {
    let peer = request.peer_addr()?;
    let trusted = &settings.trusted_proxies;
    Some(client_address(peer.ip(), request.headers(), trusted))
}

impl UnknownClient {
    /// The client of a request.
    pub fn of(request: &HttpRequest, settings: &HttpSettings, now: Millis) -> Self {
        Self {
            address: address_of(request, settings).map(network),
            limit: settings.unauthenticated_per_minute,
            now,
        }
    }
}

impl UnknownClient {
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

impl fmt::Display for UnknownClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}

/// Failed authentication in the current window.
#[derive(Debug)]
pub struct UnknownClients {
    /// Refused requests by address.
    refused: Limiter<IpAddr>,
    /// Unknown credentials by address.
    guessed: Limiter<IpAddr>,
    /// Requests for widgets and examples by address.
    visits: Limiter<IpAddr>,
    proven: Cache<CredentialHash, ()>,
    /// Look-ups under way of credentials that never were valid. One request looks up; the others wait for its result.
    trying: DashMap<CredentialHash, watch::Sender<LookUpResult>>,
}

/// Result of a look-up that others wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LookUpResult {
    /// Under way, or given up.
    #[default]
    Nothing,
    /// The database is unavailable.
    Away,
}

/// The only look-up of a credential; removed when it is dropped.
struct LookUpGuard<'a> {
    all: &'a DashMap<CredentialHash, watch::Sender<LookUpResult>>,
    hash: CredentialHash,
}

impl LookUpGuard<'_> {
    fn tell(&self, found: LookUpResult) {
        if let Some(trying) = self.all.get(&self.hash) {
            trying.send_replace(found);
        }
    }
}

impl Drop for LookUpGuard<'_> {
    fn drop(&mut self) {
        self.all.remove(&self.hash);
    }
}

impl Default for UnknownClients {
    fn default() -> Self {
        Self {
            refused: Limiter::new(ADDRESSES_MAX),
            guessed: Limiter::new(ADDRESSES_MAX),
            visits: Limiter::new(ADDRESSES_MAX),
            proven: Cache::new(PROVEN_MAX),
            trying: DashMap::new(),
        }
    }
}

impl UnknownClients {
    /// Counts a request of a website's visitor. Fails above the limit.
    pub fn visit(&self, visitor: &UnknownClient) -> Result<(), ApiError> {
        let visitor = UnknownClient {
            limit: VISITS_MAX,
            ..*visitor
        };
        visitor.count(&self.visits)
    }

    /// Looks up the credential with that hash, unless its address guessed too often. `is_refusal` is true for an
    /// error that means an invalid credential, and false for an internal fault.
    pub async fn look_up<T, E: From<ApiError>>(
        &self,
        stranger: &UnknownClient,
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
                    attempt.tell(LookUpResult::Away);
                }
                found
            }
        }
    }

    /// None for a credential that was valid before, otherwise the right to look it up, which counts as a guess. Of
    /// concurrent requests with one credential only one looks it up. So many requests of a valid client count once on
    /// a node that has just started.
    async fn attempt(
        &self,
        stranger: &UnknownClient,
        hash: &CredentialHash,
    ) -> Result<Option<LookUpGuard<'_>>, ApiError> {
        loop {
            if self.proven.contains_key(hash) {
                return Ok(None);
            }
            let mut trying = match self.trying.entry(hash.clone()) {
                Entry::Occupied(trying) => trying.get().subscribe(),
                Entry::Vacant(none) => {
                    stranger.count(&self.guessed)?;
                    none.insert(watch::Sender::default());
                    return Ok(Some(LookUpGuard {
                        all: &self.trying,
                        hash: hash.clone(),
                    }));
                }
            };
            // The channel closes when the look-up ends. Before that it reports if the database is unavailable.
            if trying
                .wait_for(|found| *found == LookUpResult::Away)
                .await
                .is_ok()
            {
                return Err(ApiError::Unavailable);
            }
        }
    }

    /// The answer to a refused client: `error`, or the rate limit's.
    pub fn refused<E: From<ApiError>>(&self, stranger: &UnknownClient, error: E) -> E {
        stranger.count(&self.refused).err().map_or(error, E::from)
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::{API_KEY_SCHEME, Credential};

    use super::*;

    fn stranger(limit: u32) -> UnknownClient {
        UnknownClient {
            address: Some("192.0.2.1".parse().expect("an address")),
            limit,
            now: Millis::from_i64(1_800_000_000_000),
        }
    }

    async fn try_out(
        strangers: &UnknownClients,
        stranger: UnknownClient,
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
        let strangers = UnknownClients::default();
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
        let strangers = UnknownClients::default();
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
        // Until it is no longer valid.
        let (answer, asked) = try_out(&strangers, stranger(1), &good, wrong).await;
        assert!(asked && matches!(answer, Err(ApiError::RateLimited { .. })));
        assert!(!try_out(&strangers, stranger(1), &good, Ok(())).await.1);
    }

    #[actix_web::test]
    async fn a_new_key_is_not_hurt_by_who_has_none() {
        let strangers = UnknownClients::default();
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
        let strangers = UnknownClients::default();
        let key = API_KEY_SCHEME.generate();
        for _ in 0..5 {
            let away = Err(ApiError::Unavailable);
            let tried = try_out(&strangers, stranger(1), &key, away).await;
            assert_eq!(tried, (Err(ApiError::Unavailable), true));
        }
    }

    /// Many concurrent requests with a valid key reach a node that has just started.
    #[actix_web::test]
    async fn a_good_key_that_comes_many_times_at_once_is_no_guess() {
        let strangers = UnknownClients::default();
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
