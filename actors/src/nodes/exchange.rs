//! Carries [`Notices`] between nodes over a dedicated connection.

use std::time::Duration;

use dikala_entities::{Store, store};
use sea_orm::DbErr;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Membership, notices::Notices};

/// PostgreSQL scopes channels to a database, so no other program shares this one.
const CHANNEL: &str = "dikala";
/// Pause between checks for other nodes.
const ALONE_FOR: Duration = Duration::from_secs(1);
/// Minimum pause between two notices of this node; topics that come in between go with the next notice.
const APART: Duration = Duration::from_millis(10);
/// After this time without a notice, a query proves that the connection works.
const PROVEN_FOR: Duration = Duration::from_secs(1);
/// Backoff before the next connection, and its maximum.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(4);

/// Listens and sends notices while there are other nodes, until the future is dropped.
pub async fn exchange(member: Membership, store: Store) {
    let notices = member.notices();
    // None while notices are received.
    let mut deaf_for: Option<Duration> = None;
    loop {
        if !member.has_others() {
            notices.take_untold("");
            sleep(ALONE_FOR).await;
            continue;
        }
        let ended = attend(&member, &store, notices).await;
        deaf_for = deaf_for.filter(|_| !notices.listens());
        notices.listening(false);
        let Err(error) = ended else {
            continue;
        };
        // A long outage is logged once.
        let pause = if let Some(before) = deaf_for {
            tracing::debug!(%error, "still cannot listen for notices of other nodes");
            AGAIN_AFTER_MAX.min(before * 2)
        } else {
            tracing::warn!(%error, "cannot listen for notices of other nodes; the tables are read more often until it works");
            AGAIN_AFTER
        };
        sleep(pause).await;
        deaf_for = Some(pause);
    }
}

/// Listens until there are no other nodes or the connection fails.
async fn attend(member: &Membership, store: &Store, notices: &Notices) -> Result<(), DbErr> {
    let Some(mut connection) = store.listen(CHANNEL).await? else {
        sleep(ALONE_FOR).await;
        return Ok(());
    };
    // A connection that cannot send does not receive either. Notices sent before this are made up for by polling.
    say(&mut connection, notices, &member.id()).await?;
    notices.listening(true);
    let mut said_at = Instant::now();
    while member.has_others() {
        let pause = if notices.has_untold() {
            APART
        } else {
            PROVEN_FOR
        };
        tokio::select! {
            notice = connection.next() => notices.heard(&notice?, &member.id()),
            () = notices.wanted() => {}
            () = sleep_until(said_at + pause) => {
                say(&mut connection, notices, &member.id()).await?;
                said_at = Instant::now();
            }
        }
    }
    Ok(())
}

async fn say(
    connection: &mut store::NoticeConnection,
    notices: &Notices,
    me: &str,
) -> Result<(), DbErr> {
    let Some(notice) = notices.take_untold(me) else {
        return connection.prove().await;
    };
    let told = connection.tell(&notice).await;
    if told.is_err() {
        // Sent again over the next connection.
        notices.put_back(&notice);
    }
    told
}

#[cfg(test)]
mod tests {
    use dikala_testkit::{PATIENCE, eventually};
    use futures_util::FutureExt;
    use sea_orm::{ConnectionTrait, Statement};

    use super::*;
    use crate::nodes::notices::{TOPICS, Topic};

    /// The sessions that listen, as the server lists them.
    const LISTENERS: &str = "FROM pg_stat_activity WHERE datname = current_database() \
                             AND application_name = 'dikala notices'";

    async fn is_told(one: &TestMember, topic: Topic) {
        let told = tokio::time::timeout(PATIENCE, one.notices().told(topic));
        told.await.expect("is told");
    }

    /// A node that exchanges notices until it is dropped.
    struct TestMember {
        member: Membership,
        exchange: actix_rt::task::JoinHandle<()>,
    }

    impl Drop for TestMember {
        fn drop(&mut self) {
            self.exchange.abort();
        }
    }

    impl TestMember {
        async fn listening(id: &str, store: &Store) -> Self {
            let member = Membership::outside(id);
            member.found(2);
            let exchange = actix_rt::spawn(exchange(member.clone(), store.clone()));
            let one = Self { member, exchange };
            one.listens().await;
            one
        }

        async fn listens(&self) {
            eventually("to listen", async || self.notices().listens().then_some(())).await;
            // A node that has just connected polls once, for notices sent before.
            for topic in TOPICS {
                self.notices().told(topic).await;
            }
        }

        fn notices(&self) -> &Notices {
            self.member.notices()
        }

        fn has_been_told(&self, topic: Topic) -> bool {
            self.notices().told(topic).now_or_never().is_some()
        }
    }

    async fn listeners(store: &Store) -> usize {
        let sql = format!("SELECT pid {LISTENERS}");
        let statement = Statement::from_string(store.backend(), sql);
        let rows = store.reader().query_all_raw(statement).await;
        rows.expect("is read").len()
    }

    #[actix::test]
    async fn a_node_tells_others_and_not_itself_and_nothing_else() {
        let Some((_keep, store)) = dikala_testkit::postgres().await else {
            return;
        };
        let a = TestMember::listening("a", &store).await;
        let b = TestMember::listening("b", &store).await;
        for topic in TOPICS {
            b.notices().tell(topic);
            eventually(&format!("{topic:?}"), async || {
                a.has_been_told(topic).then_some(())
            })
            .await;
            for other in TOPICS {
                assert!(!a.has_been_told(other), "{other:?} with {topic:?}");
            }
        }
        // Its own notice came before the one that it waits for now.
        a.notices().tell(Topic::Events);
        is_told(&b, Topic::Events).await;
        b.notices().tell(Topic::Bridges);
        is_told(&a, Topic::Bridges).await;
        assert!(!a.has_been_told(Topic::Events), "its own");
    }

    /// Without a connection the node polls as often as if no notices existed. Notices that could not be sent are sent
    /// later.
    #[actix::test]
    async fn who_is_cut_off_knows_and_comes_back() {
        let Some((_keep, store)) = dikala_testkit::postgres().await else {
            return;
        };
        let a = TestMember::listening("a", &store).await;
        let b = TestMember::listening("b", &store).await;
        let end = format!("SELECT pg_terminate_backend(pid) {LISTENERS}");
        for round in 0..3 {
            // Wake-ups left over from connecting must not count in this round.
            for one in [&a, &b] {
                one.has_been_told(Topic::Deliveries);
            }
            let ended = store.writer().execute_unprepared(&end).await;
            assert_eq!(ended.expect("is sent").rows_affected(), 2, "{round}");
            // Each node polls when it is cut off, and when it is connected again.
            for one in [&a, &b] {
                is_told(one, Topic::Deliveries).await;
            }
            eventually("to listen again", async || {
                let listen = [&a, &b].map(|one| one.notices().listens());
                (listeners(&store).await == 2 && listen == [true; 2]).then_some(())
            })
            .await;
            a.has_been_told(Topic::Events);
            b.notices().tell(Topic::Events);
            is_told(&a, Topic::Events).await;
        }
    }

    #[actix::test]
    async fn alone_it_keeps_no_connection() {
        let Some((_keep, store)) = dikala_testkit::postgres().await else {
            return;
        };
        let a = TestMember::listening("a", &store).await;
        a.member.found(1);
        eventually("no connection", async || {
            (listeners(&store).await == 0).then_some(())
        })
        .await;
    }
}
