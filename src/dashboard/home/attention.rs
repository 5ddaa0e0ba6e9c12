//! Problems that need attention, each with a link to its remedy.

use dikala_entities::{OfTenant, PhoneNumber, WebhookId, webhook};
use sea_orm::{DbErr, QueryFilter, QueryOrder, QuerySelect};

use super::{
    super::{
        agents::{self, functions},
        names::cut,
        view::SignedIn,
        webhooks,
    },
    credit::CreditSummary,
};
use crate::{
    http::error::ApiError,
    operations::{
        functions::{FailingFunction, failing},
        webhooks::health::in_trouble,
    },
};

/// Shown problems of each kind; the linked pages show all.
const EACH_MAX: u64 = 3;
/// The longest part of a URL that is shown, in characters.
const URL_CHARS_MAX: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttentionItem {
    NoCredit,
    LowCredit(i64),
    /// Id and URL of the webhook.
    Disabled(WebhookId, String),
    Failing(WebhookId, String),
    Function(FailingFunction),
    NumberWithoutAgent(PhoneNumber),
}

impl AttentionItem {
    /// True if something is broken already; false for a warning.
    pub const fn is_bad(&self) -> bool {
        matches!(
            self,
            Self::NoCredit | Self::Disabled(..) | Self::Function(_)
        )
    }

    /// The problem in words.
    pub fn words(&self, visit: &SignedIn) -> String {
        match self {
            Self::NoCredit => visit.t("home-no-credit"),
            Self::LowCredit(left) => visit.tn("home-low-credit", &[("minutes", (*left).into())]),
            Self::Disabled(_, url) => {
                visit.tn("home-webhook-disabled", &[("url", url.as_str().into())])
            }
            Self::Failing(_, url) => {
                visit.tn("home-webhook-failing", &[("url", url.as_str().into())])
            }
            Self::Function(broken) => visit.tn(
                "home-function-failing",
                &[
                    ("name", broken.name.as_str().into()),
                    ("failed", broken.failed.into()),
                ],
            ),
            Self::NumberWithoutAgent(did) => visit.tn(
                "home-number-without-agent",
                &[("number", did.as_str().into())],
            ),
        }
    }

    /// The path of the page where the problem is solved.
    pub fn path(&self) -> String {
        match self {
            Self::NoCredit | Self::LowCredit(_) => "/dashboard/credits".to_owned(),
            Self::Disabled(id, _) | Self::Failing(id, _) => webhooks::path_of(*id),
            Self::Function(broken) => functions::path_of(broken.agent_id, &broken.name, broken.id),
            Self::NumberWithoutAgent(_) => "/dashboard/numbers".to_owned(),
        }
    }

    /// The message id of that link's label.
    pub const fn cure(&self) -> &'static str {
        match self {
            Self::NoCredit | Self::LowCredit(_) => "home-see-credits",
            Self::Disabled(..) | Self::Failing(..) => "home-see-webhook",
            Self::Function(_) => "home-see-function",
            Self::NumberWithoutAgent(_) => "home-assign-agent",
        }
    }
}

/// All problems, most urgent first.
pub async fn read(
    visit: &SignedIn,
    credit: &CreditSummary,
) -> Result<Vec<AttentionItem>, ApiError> {
    let mut found: Vec<AttentionItem> = low_credit(credit).into_iter().collect();
    found.extend(of_programs(visit).await?);
    found.extend(numbers_without_agent(visit).await?);
    Ok(found)
}

/// The problems that no step of the checklist is about.
pub async fn before_the_first_call(
    visit: &SignedIn,
    credit: &CreditSummary,
) -> Result<Vec<AttentionItem>, ApiError> {
    let low = low_credit(credit).filter(|_| credit.balance > 0);
    let mut found: Vec<AttentionItem> = low.into_iter().collect();
    found.extend(of_programs(visit).await?);
    Ok(found)
}

/// Problems of the tenant's webhooks and functions.
async fn of_programs(visit: &SignedIn) -> Result<Vec<AttentionItem>, ApiError> {
    let mut found = bad_webhooks(visit).await?;
    let broken = broken_functions(visit).await?.into_iter();
    found.extend(broken.map(AttentionItem::Function));
    Ok(found)
}

const fn low_credit(credit: &CreditSummary) -> Option<AttentionItem> {
    if credit.balance <= 0 {
        Some(AttentionItem::NoCredit)
    } else if credit.balance < credit.threshold {
        Some(AttentionItem::LowCredit(credit.balance))
    } else {
        None
    }
}

/// Disabled webhooks, then failing ones.
async fn bad_webhooks(visit: &SignedIn) -> Result<Vec<AttentionItem>, DbErr> {
    let rows = webhook::Entity::of(visit.tenant())
        .filter(in_trouble())
        .order_by_asc(webhook::Column::IsActive)
        .order_by_asc(webhook::Column::Id)
        .limit(EACH_MAX)
        .all(visit.store().api_reader())
        .await?;
    let told = |row: webhook::Model| {
        let url = cut(row.url.as_str(), URL_CHARS_MAX).into_owned();
        match row.is_active {
            true => AttentionItem::Failing(row.id, url),
            false => AttentionItem::Disabled(row.id, url),
        }
    };
    Ok(rows.into_iter().map(told).collect())
}

async fn broken_functions(visit: &SignedIn) -> Result<Vec<FailingFunction>, DbErr> {
    let (db, now) = (visit.store().api_reader(), visit.services().clock.now());
    failing(db, visit.tenant(), now, EACH_MAX).await
}

async fn numbers_without_agent(visit: &SignedIn) -> Result<Vec<AttentionItem>, DbErr> {
    let rows = agents::edit::without_agent(visit, EACH_MAX).await?;
    Ok(rows
        .into_iter()
        .map(|number| AttentionItem::NumberWithoutAgent(number.did))
        .collect())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 30, Some(AttentionItem::NoCredit))]
    #[case(29, 30, Some(AttentionItem::LowCredit(29)))]
    #[case(30, 30, None)]
    #[case(1, 0, None)]
    fn credit_is_told_below_the_threshold(
        #[case] balance: i64,
        #[case] threshold: i64,
        #[case] expected: Option<AttentionItem>,
    ) {
        let credit = CreditSummary {
            balance,
            threshold,
            ..CreditSummary::default()
        };
        assert_eq!(low_credit(&credit), expected);
    }
}
