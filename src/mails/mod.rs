//! Mails to members: invitations, and notices to owners. A mail is a row, written in the transaction of its cause
//! (`dikala_actors::mails`). One task per node reads the rows and hands them to the operator's mail server.
//!
//! Nothing waits for that task. Each attempt first stores the time of the next one in the row. So only one of several
//! nodes makes it, and a server that hangs delays only mails. A sent or given up mail stays for a day, without its
//! link, to limit the mails of a tenant.

mod letter;
mod queue;
mod relay;
mod smtp_socket;

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dikala_actors::runtime::clock::SharedClock;
use dikala_entities::{Millis, Store, Vault, mail};
use futures_util::FutureExt;
use sea_orm::DbErr;
use tokio::{sync::watch, time::sleep};

pub use self::relay::{Relay, RelayError};
use self::{
    letter::{MailText, MailWriter},
    relay::SendOutcome,
};

/// Interval between looks for due mails.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same after a database failure.
const AFTER_FAULT: Duration = Duration::from_secs(30);
/// Attempts to record that a mail was sent, if the database fails. They end before the mail's next attempt.
const FINISH_TRIES: u32 = 5;
/// Waits after each attempt, in milliseconds; after the last attempt the mail is given up.
const WAITS_MS: [i64; 8] = [
    60_000, 300_000, 900_000, 3_600_000, 7_200_000, 14_400_000, 28_800_000, 60_000,
];
/// The longest of these waits.
const WAITS_MAX_MS: i64 = 28_800_000;

/// Counters of attempts since the start. A mail is counted once its row has the same state.
#[derive(Debug, Default)]
pub struct MailStats {
    sent: AtomicU64,
    retried: AtomicU64,
    given_up: AtomicU64,
}

impl MailStats {
    /// The counters by outcome.
    pub fn outcomes(&self) -> [(&'static str, u64); 3] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("sent", read(&self.sent)),
            ("retried", read(&self.retried)),
            ("given_up", read(&self.given_up)),
        ]
    }
}

/// Sends due mails.
#[derive(Debug)]
pub struct Mailer {
    pub store: Store,
    pub clock: SharedClock,
    pub vault: Vault,
    pub relay: Relay,
    /// The base URL of links, without a trailing slash.
    pub base: String,
    pub stats: Arc<MailStats>,
}

impl Mailer {
    /// Sends due mails until the service stops. A mail that is being sent then is sent to its end.
    pub async fn run(self, mut stopping: watch::Receiver<bool>) {
        let mut dates_are_right = false;
        while !*stopping.borrow() {
            let round = async {
                if !dates_are_right {
                    queue::set_right(&self.store, self.clock.now()).await?;
                    dates_are_right = true;
                }
                self.round(&stopping).await
            };
            let pause = match AssertUnwindSafe(round).catch_unwind().await {
                Ok(Ok(())) => LOOK_EVERY,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "could not read waiting mails; trying again");
                    AFTER_FAULT
                }
                // The mail that panicked was claimed before, so the others have their turn.
                Err(_) => {
                    tracing::error!(
                        "a panic while sending a mail; sending continues with the next mail"
                    );
                    AFTER_FAULT
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                changed = stopping.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Handles the due mails, until the server is unreachable.
    async fn round(&self, stopping: &watch::Receiver<bool>) -> Result<(), DbErr> {
        for mail in queue::due(&self.store, self.clock.now()).await? {
            if *stopping.borrow() {
                break;
            }
            if mail.user_id.is_none() {
                queue::address(&self.store, mail, self.clock.now()).await?;
            } else if self.handle(mail).await? == Reached::No {
                break;
            }
        }
        Ok(())
    }

    async fn handle(&self, mail: mail::Model) -> Result<Reached, DbErr> {
        let now = self.clock.now();
        let Some(next_at) = next_try(&mail, now) else {
            // The time is over: the service was down for that long, or died at the last attempt.
            self.give_up(&mail, "it could not be sent in time").await?;
            return Ok(Reached::Yes);
        };
        if !queue::claim(&self.store, &mail, next_at).await? {
            return Ok(Reached::Yes);
        }
        let writer = MailWriter {
            store: &self.store,
            vault: &self.vault,
            base: &self.base,
        };
        let Some(letter) = writer.write(&mail).await? else {
            tracing::info!(mail = %mail.id, "a mail is not sent, because its subject or its recipient does not exist any more");
            queue::finish(&self.store, &mail).await?;
            return Ok(Reached::Yes);
        };
        self.send(&mail, &letter).await
    }

    async fn send(&self, mail: &mail::Model, letter: &MailText) -> Result<Reached, DbErr> {
        let attempt = mail.attempts + 1;
        let now = self.clock.on_the_wall(self.clock.now());
        match self.relay.send(mail.id, letter, now).await {
            SendOutcome::Sent => {
                tracing::info!(mail = %mail.id, tenant = %mail.tenant_id, kind = %mail.kind, attempt, "a mail was sent");
                self.finish_sent(mail).await?;
                self.stats.sent.fetch_add(1, Ordering::Relaxed);
                Ok(Reached::Yes)
            }
            SendOutcome::Refused(why) => {
                self.give_up(mail, &why).await?;
                Ok(Reached::Yes)
            }
            SendOutcome::Later(why, reached) => {
                if is_last(attempt) {
                    self.give_up(mail, &why).await?;
                } else {
                    tracing::warn!(mail = %mail.id, tenant = %mail.tenant_id, attempt, why, "could not send a mail; trying again later");
                    self.stats.retried.fetch_add(1, Ordering::Relaxed);
                }
                Ok(reached)
            }
        }
    }

    /// Retries, because a mail is sent again if its row does not say that it was sent.
    async fn finish_sent(&self, mail: &mail::Model) -> Result<(), DbErr> {
        for _ in 1..FINISH_TRIES {
            if queue::finish(&self.store, mail).await.is_ok() {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
        queue::finish(&self.store, mail).await
    }

    async fn give_up(&self, mail: &mail::Model, why: &str) -> Result<(), DbErr> {
        tracing::warn!(mail = %mail.id, tenant = %mail.tenant_id, kind = %mail.kind, why, "could not send a mail; it is given up");
        queue::finish(&self.store, mail).await?;
        self.stats.given_up.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// True if the server could be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    Yes,
    No,
}

fn is_last(attempt: i64) -> bool {
    usize::try_from(attempt).is_ok_and(|attempt| attempt >= WAITS_MS.len())
}

/// The time of the attempt after the next one, if that fails; none if the mail's time is over.
fn next_try(mail: &mail::Model, now: Millis) -> Option<Millis> {
    let wait = WAITS_MS.get(usize::try_from(mail.attempts).ok()?)?;
    (now < mail.ends_at).then(|| now.plus_ms(*wait))
}

#[cfg(test)]
mod tests {
    use dikala_actors::mails::{self, KEPT_MS};
    use dikala_entities::{MailKind, TenantId};

    use super::*;

    #[test]
    fn a_mail_is_tried_often_at_first_and_never_after_its_day() {
        let now = Millis::from_i64(1_800_000_000_000);
        let kind = MailKind::CreditsLow;
        let mut mail = mails::to_owners(kind, TenantId::new(now), String::new(), now);
        let (mut at, mut tries) = (now, 0);
        while let Some(next) = next_try(&mail, at) {
            (at, mail.attempts, tries) = (next, mail.attempts + 1, tries + 1);
            assert_eq!(is_last(mail.attempts), tries == WAITS_MS.len());
        }
        assert_eq!(tries, WAITS_MS.len());
        assert!(at < mail.ends_at, "the waits fit into the day");
        assert_eq!(WAITS_MS.iter().max(), Some(&WAITS_MAX_MS));
        mail.attempts = 0;
        assert_eq!(next_try(&mail, now.plus_ms(KEPT_MS)), None);
    }
}
