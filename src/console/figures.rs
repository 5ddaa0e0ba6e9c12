//! Formats figures, words and names for the pages.

use std::collections::{BTreeSet, HashMap};

use dikala_entities::{CallStatus, DeliveryStatus, Millis, TenantId, tenant};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QuerySelect};

use super::{list::word, view::ConsoleView};
use crate::{
    operator_api::actors::DurationPercentiles,
    pages::{
        components::{Tone, badge},
        view::View,
    },
};

/// Placeholder for a missing value.
pub const NONE: &str = "–";
/// Microseconds in a millisecond, and in a second.
const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// A duration, with only meaningful digits.
pub fn time_us(us: u64) -> String {
    match us {
        0..MS => format!("{us} µs"),
        MS..10_000 => format!("{}.{} ms", us / MS, us % MS / 100),
        10_000..SECOND => format!("{} ms", us / MS),
        SECOND..10_000_000 => format!("{}.{} s", us / SECOND, us % SECOND / 100_000),
        _ => format!("{} s", us / SECOND),
    }
}

/// A percentile's upper bound.
pub fn within(us: Option<u64>) -> String {
    us.map_or(NONE.to_owned(), |us| format!("≤ {}", time_us(us)))
}

/// Median and 99th percentile.
pub fn times(times: &DurationPercentiles) -> Markup {
    html! { (within(times.p50)) " / " (within(times.p99)) }
}

pub fn bytes(bytes: i64) -> String {
    const KIB: i64 = 1_024;
    match bytes {
        ..KIB => format!("{bytes} B"),
        KIB..1_048_576 => format!("{} KiB", bytes / KIB),
        _ => format!("{} MiB", bytes / KIB / KIB),
    }
}

pub fn count(view: &View, count: u64) -> String {
    view.number(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The duration of a state, rounded so that a live page seldom changes because of it.
pub fn since(visit: &ConsoleView, then: Millis) -> String {
    // The view's own time is that of the request, which is old on a live page.
    let minutes = visit.state().now().since(then).max(0) / 60_000;
    let (id, count) = match minutes {
        0 => return visit.t("console-under-a-minute"),
        1..120 => ("console-minutes-short", minutes),
        120..2_880 => ("console-hours", minutes / 60),
        _ => ("console-days", minutes / 1_440),
    };
    visit.tn(id, &[("count", count.into())])
}

/// Minutes of credit.
pub fn minutes(view: &View, minutes: i64) -> Markup {
    html! { (view.tn("console-minutes-short", &[("count", minutes.into())])) }
}

/// A call's status as a badge.
pub fn call_status(view: &View, status: CallStatus) -> Markup {
    let tone = match status {
        CallStatus::Ringing => Tone::Plain,
        CallStatus::Answered => Tone::Good,
        CallStatus::Ended => Tone::Plain,
        CallStatus::Dropped | CallStatus::Failed => Tone::Bad,
    };
    badge(tone, &word(view, status.as_str()))
}

/// A delivery's status as a badge.
pub fn delivery_status(view: &View, status: DeliveryStatus) -> Markup {
    let tone = match status {
        DeliveryStatus::Pending => Tone::Warning,
        DeliveryStatus::Succeeded => Tone::Good,
        DeliveryStatus::Failed => Tone::Bad,
    };
    badge(tone, &word(view, status.as_str()))
}

/// Longest address in a list, in characters.
const ADDRESS_CHARS_MAX: usize = 80;

/// An address without query and fragment: these may hold tokens, which operators need not see.
pub fn address(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

/// [`address`], shortened for a list.
pub fn short_address(url: &str) -> String {
    let plain = address(url);
    match plain.char_indices().nth(ADDRESS_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &plain[..end]),
        None => plain.to_owned(),
    }
}

#[derive(Debug, Default)]
pub struct TenantNames(HashMap<TenantId, String>);

impl TenantNames {
    /// Looks up the names of these tenants.
    pub async fn of(
        db: &impl ConnectionTrait,
        tenants: impl IntoIterator<Item = TenantId>,
    ) -> Result<Self, DbErr> {
        let tenants: BTreeSet<TenantId> = tenants.into_iter().collect();
        if tenants.is_empty() {
            return Ok(Self::default());
        }
        let names: Vec<(TenantId, String)> = tenant::Entity::find()
            .select_only()
            .columns([tenant::Column::Id, tenant::Column::Name])
            .filter(tenant::Column::Id.is_in(tenants))
            .into_tuple()
            .all(db)
            .await?;
        Ok(Self(names.into_iter().collect()))
    }

    /// A tenant's name as a link to its page.
    pub fn link(&self, id: TenantId) -> Markup {
        let name = self.0.get(&id).cloned().unwrap_or_else(|| id.to_string());
        html! { a href={ "/tenants/" (id) } { (name) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_short() {
        for (us, text) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_000, "1.0 ms"),
            (9_990, "9.9 ms"),
            (10_000, "10 ms"),
            (999_999, "999 ms"),
            (1_000_000, "1.0 s"),
            (2_550_000, "2.5 s"),
            (30_000_000, "30 s"),
        ] {
            assert_eq!(time_us(us), text);
        }
        for (size, text) in [
            (1_023, "1023 B"),
            (1_024, "1 KiB"),
            (5_242_880, "5 MiB"),
            (1_073_741_824, "1024 MiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
        assert_eq!(within(None), NONE);
        assert_eq!(
            address("https://a.example/b?token=c"),
            "https://a.example/b"
        );
        let long = format!("https://a.example/{}?token=c", "ä".repeat(100));
        let cut = short_address(&long);
        assert!(cut.chars().count() == 81 && cut.ends_with("ä…"), "{cut}");
    }
}
