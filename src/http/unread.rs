//! Limits on large answers that clients have not read yet. They are in memory until then, so tenants share the room.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use dikala_actors::runtime::shared_limit::fair;
use dikala_entities::TenantId;

use super::error::ApiError;

/// Concurrently written lists of one tenant.
pub const LISTS_PER_TENANT_MAX: usize = 4;
/// Concurrently written lists of all tenants.
pub const LISTS_MAX: usize = 64;
/// Bytes of one tenant's large unread answers that were made whole.
pub const BYTES_PER_TENANT_MAX: usize = 16 * 1024 * 1024;
/// The same of all tenants.
const BYTES_MAX: usize = 256 * 1024 * 1024;
/// Size above which an answer counts as large, in bytes.
pub const AT_ONCE: usize = 64 * 1024;

/// Unread answers by tenant.
#[derive(Debug, Default)]
pub struct UnreadAnswers(Mutex<HashMap<TenantId, UnreadLoad>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnreadLoad {
    /// Lists that are being written.
    lists: usize,
    /// Bytes of large answers that were made whole.
    bytes: usize,
}

/// The reservation of an unread answer; released when it is dropped.
#[derive(Debug)]
pub struct UnreadReservation {
    unread: Arc<UnreadAnswers>,
    tenant: TenantId,
    share: UnreadLoad,
}

impl UnreadAnswers {
    /// Reserves a place for a list that is being written.
    pub fn take(self: &Arc<Self>, tenant: TenantId) -> Result<UnreadReservation, ApiError> {
        self.add(tenant, UnreadLoad { lists: 1, bytes: 0 })
    }

    /// Reserves the bytes of an answer that is made whole. None for a small answer, which needs no reservation.
    pub fn hold(
        self: &Arc<Self>,
        tenant: TenantId,
        bytes: u64,
    ) -> Result<Option<UnreadReservation>, ApiError> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes <= AT_ONCE {
            return Ok(None);
        }
        self.add(tenant, UnreadLoad { lists: 0, bytes }).map(Some)
    }

    /// True if no answer is unread.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    fn add(
        self: &Arc<Self>,
        tenant: TenantId,
        share: UnreadLoad,
    ) -> Result<UnreadReservation, ApiError> {
        let mut by_tenant = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = by_tenant.get(&tenant).copied().unwrap_or_default();
        let of_all =
            |of: fn(&UnreadLoad) -> usize| by_tenant.values().map(of).collect::<Vec<usize>>();
        let lists = FairLimit {
            max: LISTS_MAX,
            each: LISTS_PER_TENANT_MAX,
            held: of_all(|under_way| under_way.lists),
        };
        let bytes = FairLimit {
            max: BYTES_MAX,
            each: BYTES_PER_TENANT_MAX,
            held: of_all(|under_way| under_way.bytes),
        };
        let mine = UnreadLoad {
            lists: lists.add(mine.lists, share.lists)?,
            bytes: bytes.add(mine.bytes, share.bytes)?,
        };
        by_tenant.insert(tenant, mine);
        let unread = Arc::clone(self);
        Ok(UnreadReservation {
            unread,
            tenant,
            share,
        })
    }
}

/// A limit that tenants share fairly: slow readers leave room for tenants that have none of it yet.
struct FairLimit {
    max: usize,
    each: usize,
    /// The use of each tenant that has any.
    held: Vec<usize>,
}

impl FairLimit {
    /// The tenant's use after `more`, or an error.
    fn add(&self, mine: usize, more: usize) -> Result<usize, ApiError> {
        if more == 0 {
            return Ok(mine);
        }
        let held = self.held.iter().sum::<usize>();
        let holders = self.held.iter().filter(|held| **held > 0).count();
        let sum = mine.saturating_add(more);
        if sum <= fair(self.max, self.each, held, holders) && more <= self.max - held {
            return Ok(sum);
        }
        // The tenant can make room by reading, so the error says that.
        if mine > 0 || more > self.each {
            return Err(ApiError::TooMuchUnread);
        }
        Err(ApiError::Unavailable)
    }
}

impl Drop for UnreadReservation {
    fn drop(&mut self) {
        let mut by_tenant = self.unread.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mine) = by_tenant.get_mut(&self.tenant) {
            mine.lists -= self.share.lists;
            mine.bytes -= self.share.bytes;
            if *mine == UnreadLoad::default() {
                by_tenant.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::Millis;

    use super::*;

    fn tenant() -> TenantId {
        TenantId::new(Millis::from_i64(1))
    }

    /// Tenants in turn take as much as they get.
    fn greedy(
        tenants: usize,
        take: impl Fn(TenantId) -> Option<UnreadReservation>,
    ) -> Vec<UnreadReservation> {
        let tenants: Vec<TenantId> = (0..tenants).map(|_| tenant()).collect();
        let mut places = Vec::new();
        loop {
            let before = places.len();
            places.extend(tenants.iter().filter_map(|tenant| take(*tenant)));
            if places.len() == before {
                return places;
            }
        }
    }

    #[test]
    fn tenants_that_read_slowly_leave_places_for_those_that_have_none() {
        for tenants in 1..=30 {
            let unread = Arc::new(UnreadAnswers::default());
            let places = greedy(tenants, |tenant| unread.take(tenant).ok());
            assert!(unread.take(tenant()).is_ok(), "{tenants} took all places");
            drop(places);
            assert!(unread.is_idle());
        }
    }

    #[test]
    fn tenants_that_read_slowly_leave_bytes_for_those_that_have_none() {
        const PAGE: u64 = 1024 * 1024;
        for tenants in 1..=30 {
            let unread = Arc::new(UnreadAnswers::default());
            let hold = |tenant| unread.hold(tenant, PAGE).ok().flatten();
            let places = greedy(tenants, hold);
            assert!(hold(tenant()).is_some(), "{tenants} took all bytes");
            drop(places);
            assert!(unread.is_idle());
        }
    }

    #[test]
    fn who_has_unread_answers_is_told_so_and_others_that_there_is_no_room() {
        let shared = |held| FairLimit {
            max: 8,
            each: 4,
            held,
        };
        let add = |held, mine, more| {
            let error = shared(held).add(mine, more).err()?;
            Some(matches!(error, ApiError::TooMuchUnread))
        };
        assert_eq!(add(vec![4], 4, 1), Some(true));
        assert_eq!(add(vec![], 0, 5), Some(true));
        assert_eq!(add(vec![3, 2], 2, 1), Some(true));
        assert_eq!(add(vec![4, 4], 0, 1), Some(false));
        assert_eq!(add(vec![3, 2], 0, 1), None);
    }
}
