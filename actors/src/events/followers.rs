//! Live followers read a tenant's events in the order of their commits. A wake-up carries no data: followers read the
//! table, so losing a wake-up costs time, not events.

use std::{sync::Arc, time::Instant};

use dashmap::DashMap;
use dikala_entities::{EventId, Store, TenantId, event};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    Statement,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::nodes::notices::{Notices, Topic};

/// Limit of followers per tenant.
pub const FOLLOWERS_PER_TENANT_MAX: usize = 10;
/// Limit of followers of all tenants together.
const FOLLOWERS_MAX: usize = 1_024;

/// Wakes followers. Clones share the same state.
#[derive(Clone, Debug)]
pub struct Followers {
    tenants: Arc<DashMap<TenantId, FollowedTenant>>,
    notices: Notices,
    /// Closed when the service stops.
    seats: Arc<Semaphore>,
}

/// A tenant whose events are followed.
#[derive(Debug)]
struct FollowedTenant {
    woken: watch::Sender<()>,
    /// Followers that hold a seat.
    readers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSeat {
    #[error("the tenant has {FOLLOWERS_PER_TENANT_MAX} followers already")]
    Tenant,
    #[error("there are too many followers, or the service stops")]
    Service,
}

/// A subscription to a tenant's events.
#[derive(Debug)]
pub struct Follower {
    followers: Followers,
    tenant: TenantId,
    woken: watch::Receiver<()>,
    /// None for a page: pages have a limit of their own.
    seat: Option<OwnedSemaphorePermit>,
}

impl Default for Followers {
    fn default() -> Self {
        Self {
            tenants: Arc::default(),
            notices: Notices::default(),
            seats: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
        }
    }
}

impl Followers {
    /// Followers at this node; `notices` tells other nodes of its commits.
    pub fn among(notices: Notices) -> Self {
        Self {
            notices,
            ..Self::default()
        }
    }

    /// Takes a seat. Events committed from now on wake the follower.
    pub fn follow(&self, tenant: TenantId) -> Result<Follower, NoSeat> {
        let seat = Arc::clone(&self.seats);
        let seat = seat.try_acquire_owned().map_err(|_| NoSeat::Service)?;
        self.subscribe(tenant, Some(seat))
    }

    /// Subscribes a page, which takes no seat here.
    pub fn look(&self, tenant: TenantId) -> Result<Follower, NoSeat> {
        self.subscribe(tenant, None)
    }

    fn subscribe(
        &self,
        tenant: TenantId,
        seat: Option<OwnedSemaphorePermit>,
    ) -> Result<Follower, NoSeat> {
        let mut followed = self
            .tenants
            .entry(tenant)
            .or_insert_with(|| FollowedTenant {
                woken: watch::channel(()).0,
                readers: 0,
            });
        if seat.is_some() {
            if followed.readers >= FOLLOWERS_PER_TENANT_MAX {
                return Err(NoSeat::Tenant);
            }
            followed.readers += 1;
        }
        let woken = followed.woken.subscribe();
        drop(followed);
        let follower = Follower {
            followers: self.clone(),
            tenant,
            woken,
            seat,
        };
        // The service closed after the seat was taken: nothing would end this follower.
        if self.seats.is_closed() {
            return Err(NoSeat::Service);
        }
        Ok(follower)
    }

    /// Call this after this node committed events of these tenants.
    pub fn announce(&self, tenants: impl IntoIterator<Item = TenantId>) {
        self.notices.tell(Topic::Events);
        self.wake(tenants);
    }

    /// Wakes the followers of tenants that have new events.
    pub(super) fn wake(&self, tenants: impl IntoIterator<Item = TenantId>) {
        if self.tenants.is_empty() {
            return;
        }
        for tenant in tenants {
            if let Some(followers) = self.tenants.get(&tenant) {
                followers.woken.send_replace(());
            }
        }
    }

    /// The tenants whose events are followed.
    pub(super) fn followed(&self) -> Vec<TenantId> {
        self.tenants.iter().map(|tenant| *tenant.key()).collect()
    }

    /// The number of followers that hold a seat.
    pub fn followers(&self) -> usize {
        FOLLOWERS_MAX - self.seats.available_permits()
    }

    /// Ends all followers and refuses new ones.
    pub fn close(&self) {
        self.seats.close();
        self.tenants.clear();
    }
}

impl Follower {
    /// Waits for a wake-up. False: the service stops.
    pub async fn woken(&mut self) -> bool {
        self.woken.changed().await.is_ok()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // Drops its own receiver first: of two followers that leave at once, one must see that none is left.
        self.woken = watch::channel(()).1;
        if self.seat.is_some()
            && let Some(mut followed) = self.followers.tenants.get_mut(&self.tenant)
        {
            followed.readers = followed.readers.saturating_sub(1);
        }
        let unfollowed =
            |_: &TenantId, followed: &FollowedTenant| followed.woken.receiver_count() == 0;
        self.followers.tenants.remove_if(&self.tenant, unfollowed);
    }
}

/// A tenant's newest event and its position. None if no event is kept.
pub async fn newest(store: &Store, tenant: TenantId) -> Result<Option<(EventId, i64)>, DbErr> {
    event::Entity::find()
        .filter(event::Column::TenantId.eq(tenant))
        .filter(event::Column::Position.is_not_null())
        .order_by_desc(event::Column::Position)
        .select_only()
        .columns([event::Column::Id, event::Column::Position])
        .into_tuple()
        .one(store.reader())
        .await
}

/// The position of a tenant's event. None if the event is another tenant's or no longer kept.
pub async fn position(store: &Store, tenant: TenantId, id: EventId) -> Result<Option<i64>, DbErr> {
    let position: Option<Option<i64>> = event::Entity::find_by_id(id)
        .filter(event::Column::TenantId.eq(tenant))
        .select_only()
        .column(event::Column::Position)
        .into_tuple()
        .one(store.reader())
        .await?;
    Ok(position.flatten())
}

/// A tenant's next events after a position, at most `limit`; a crash of the database takes none of them back. None if the event at that position is gone and its place
/// is free or taken by another event. That happens after a restore or a failover to a replica that lagged.
pub async fn after(
    store: &Store,
    tenant: TenantId,
    (last, position): (EventId, i64),
    limit: u64,
) -> Result<Option<Vec<event::Model>>, DbErr> {
    let read_at = Instant::now();
    let mut events = event::Entity::find()
        .filter(event::Column::TenantId.eq(tenant))
        .filter(event::Column::Position.gte(position))
        .order_by_asc(event::Column::Position)
        .limit(limit + 1)
        .all(store.reader())
        .await?;
    let is_there = match events.first() {
        Some(first) if first.position == Some(position) => {
            let is_same = first.id == last;
            events.remove(0);
            is_same
        }
        // The event was removed, or it never existed.
        _ => position == 0 || places_given(store, tenant).await? >= position,
    };
    events.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    if !events.is_empty() {
        store.confirm(read_at).await?;
    }
    Ok(is_there.then_some(events))
}

/// The number of positions given to a tenant's events.
async fn places_given(store: &Store, tenant: TenantId) -> Result<i64, DbErr> {
    let statement = Statement::from_sql_and_values(
        store.backend(),
        "SELECT last FROM event_positions WHERE tenant_id = $1",
        [tenant.into()],
    );
    let row = store.reader().query_one_raw(statement).await?;
    row.map_or(Ok(0), |row| row.try_get("", "last"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::events::{
        outbox::{NewEvent, write_events},
        payload::SampleCall,
    };
    use dikala_entities::{EventKind, Millis};

    fn event(tenant: TenantId, at: i64) -> NewEvent {
        let at = Millis::from_i64(at);
        let data = SampleCall::new(at).payload(EventKind::CreditsLow);
        NewEvent::new(tenant, None, at, at, &data)
    }

    async fn commit(store: Store, event: NewEvent) {
        let txn = store.begin().await.expect("begins");
        write_events(&txn, &[event]).await.expect("writes");
        txn.commit().await.expect("commits");
    }

    /// Otherwise a follower that has read the later event would never see the earlier one, which commits after it.
    #[actix::test]
    async fn no_event_gets_a_position_after_one_that_is_not_committed() {
        for (_keep, store) in dikala_testkit::both().await {
            let tenant = TenantId::new(Millis::from_i64(1));
            let (one, two) = (event(tenant, 1), event(tenant, 2));
            let slow = store.begin().await.expect("begins");
            write_events(&slow, std::slice::from_ref(&two))
                .await
                .expect("writes");
            let mut fast = actix_rt::spawn(commit(store.clone(), one.clone()));
            let waited = tokio::time::timeout(Duration::from_millis(300), &mut fast).await;
            assert!(waited.is_err(), "it was committed before its turn");
            slow.commit().await.expect("commits");
            fast.await.expect("ends");

            let start = (EventId::first_at(Millis::MIN), 0);
            let seen = after(&store, tenant, start, 10).await.expect("reads");
            let seen = seen.expect("nothing is gone");
            let ids: Vec<EventId> = seen.iter().map(|event| event.id).collect();
            assert_eq!(ids, [two.id, one.id]);
            let at = position(&store, tenant, two.id).await.expect("reads");
            let at = at.expect("a position");
            let rest = after(&store, tenant, (two.id, at), 10).await;
            assert_eq!(rest.expect("reads").expect("is there"), seen[1..]);
            let newest = newest(&store, tenant).await.expect("reads");
            assert_eq!(newest.map(|(id, _)| id), Some(one.id));
            let stranger = TenantId::new(Millis::from_i64(3));
            assert_eq!(
                position(&store, stranger, two.id).await.expect("reads"),
                None
            );
            let theirs = after(&store, stranger, start, 10).await.expect("reads");
            assert_eq!(theirs.expect("nothing is gone"), []);
        }
    }

    /// Otherwise a follower would miss events that reuse positions lost in a failover to a replica that lagged.
    #[actix::test]
    async fn who_has_seen_what_is_no_more_is_told() {
        for (_keep, store) in dikala_testkit::both().await {
            let tenant = TenantId::new(Millis::from_i64(1));
            let [kept, lost, instead, later] = [1, 2, 3, 4].map(|at| event(tenant, at));
            commit(store.clone(), kept.clone()).await;
            commit(store.clone(), lost.clone()).await;
            let next = async |last: &NewEvent, position| {
                let read = after(&store, tenant, (last.id, position), 10).await;
                read.expect("reads")
                    .map(|events| events.iter().map(|event| event.id).collect::<Vec<_>>())
            };
            assert_eq!(next(&lost, 2).await, Some(vec![]));

            let forget = format!("DELETE FROM events WHERE id = '{}'", lost.id);
            store
                .writer()
                .execute_unprepared(&forget)
                .await
                .expect("forgets");
            assert_eq!(
                next(&lost, 2).await,
                Some(vec![]),
                "it is only not kept any more"
            );
            let back = format!("UPDATE event_positions SET last = 1 WHERE tenant_id = '{tenant}'");
            store
                .writer()
                .execute_unprepared(&back)
                .await
                .expect("goes back");
            assert_eq!(next(&lost, 2).await, None, "its place is free");
            commit(store.clone(), instead.clone()).await;
            commit(store.clone(), later.clone()).await;
            assert_eq!(next(&lost, 2).await, None, "its place is another's");
            assert_eq!(next(&kept, 1).await, Some(vec![instead.id, later.id]));
        }
    }

    #[actix::test]
    async fn seats_are_counted_and_given_back() {
        let followers = Followers::default();
        let (one, two) = (
            TenantId::new(Millis::from_i64(1)),
            TenantId::new(Millis::from_i64(2)),
        );
        let mut many: Vec<Follower> = (0..FOLLOWERS_PER_TENANT_MAX)
            .map(|_| followers.follow(one).expect("a seat"))
            .collect();
        assert_eq!(followers.follow(one).expect_err("is full"), NoSeat::Tenant);
        assert_eq!(followers.followers(), FOLLOWERS_PER_TENANT_MAX);
        let mut other = followers.follow(two).expect("another tenant's seat");
        many.pop();
        let mut again = followers.follow(one).expect("a seat that was given back");
        // Pages neither need nor take a seat.
        let page = followers.look(one).expect("pages come to a full tenant");
        drop(page);
        assert_eq!(followers.follow(one).expect_err("is full"), NoSeat::Tenant);

        followers.wake([one]);
        assert!(again.woken().await);
        assert!(!other.woken.has_changed().expect("is open"));

        many.clear();
        drop(again);
        assert_eq!(
            followers.tenants.len(),
            1,
            "nobody follows the first any more"
        );
        followers.close();
        assert!(!other.woken().await);
        assert_eq!(
            followers.follow(two).expect_err("is closed"),
            NoSeat::Service
        );
    }
}
