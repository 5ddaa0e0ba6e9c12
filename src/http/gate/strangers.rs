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
    /// Credentials that are being looked up.
    trying: DashMap<CredentialHash, Trying>,
}

/// The look-ups of one credential that are under way.
#[derive(Debug, Default)]
struct Trying {
    count: usize,
    /// Changes when one ends.
    ended: watch::Sender<()>,
}

/// One of them, until it ends or nobody waits for it any more.
struct Try<'a> {
    all: &'a DashMap<CredentialHash, Trying>,
    hash: CredentialHash,
}

impl<'a> Try<'a> {
    fn begin(all: &'a DashMap<CredentialHash, Trying>, hash: CredentialHash) -> Self {
        all.entry(hash.clone()).or_default().count += 1;
        Self { all, hash }
    }
}

impl Drop for Try<'_> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut trying) = self.all.entry(self.hash.clone()) {
            trying.get_mut().count -= 1;
            trying.get().ended.send_replace(());
            if trying.get().count == 0 {
                trying.remove();
            }
        }
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
        let is_proven = self.is_proven(stranger, &hash).await?;
        let _trying = (!is_proven).then(|| Try::begin(&self.trying, hash.clone()));
        match found.await {
            Err(error) if is_refusal(&error) => {
                self.proven.invalidate(&hash);
                Err(self.refused(stranger, error))
            }
            found => {
                if !is_proven {
                    stranger.give_back(&self.guessed);
                }
                if found.is_ok() && !is_proven {
                    self.proven.insert(hash, ());
                }
                found
            }
        }
    }

    /// Whether the credential was good before; else it counts as a guess. Where there are too many, and one is about this very
    /// credential, that one is waited for: a program that makes many requests at once is no guesser, and a node that has just
    /// started has seen nobody's credential yet.
    async fn is_proven(
        &self,
        stranger: &Stranger,
        hash: &CredentialHash,
    ) -> Result<bool, ApiError> {
        loop {
            if self.proven.contains_key(hash) {
                return Ok(true);
            }
            // In this order: one that ends after this is seen.
            let trying = self.trying.get(hash);
            let trying = trying.map(|trying| trying.ended.subscribe());
            match (stranger.count(&self.guessed), trying) {
                (Ok(()), _) => return Ok(false),
                (Err(error), None) => return Err(error),
                // It was the last one, where it says nothing more.
                (Err(_), Some(mut trying)) => trying.changed().await.unwrap_or_default(),
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
