//! Rows of calls, for the list, the home page, and single rows that the stream updates.

use std::collections::{BTreeSet, HashMap};

use dikala_entities::{AgentId, OfTenant, PhoneNumberId, TenantId, agent, phone_number};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, QueryFilter, QuerySelect};

use super::{
    super::view::{DashboardView, SignedIn},
    by_hand::{self, ManualActs},
    path_of, words,
};
use crate::{
    http::error::ApiError,
    operations::calls::{CallView, ERASED},
};

/// Names of agents and numbers.
#[derive(Clone, Debug, Default)]
pub struct CallNames {
    agents: HashMap<AgentId, String>,
    numbers: HashMap<PhoneNumberId, String>,
    hands: ManualActs,
}

impl CallNames {
    /// The names that occur in these calls.
    pub async fn of(
        db: &impl ConnectionTrait,
        tenant: TenantId,
        calls: &[CallView],
    ) -> Result<Self, DbErr> {
        let agents: BTreeSet<AgentId> = calls.iter().filter_map(|call| call.agent_id).collect();
        let numbers: BTreeSet<PhoneNumberId> =
            calls.iter().map(|call| call.phone_number_id).collect();
        let agents: Vec<(AgentId, String)> = agent::Entity::of(tenant)
            .select_only()
            .columns([agent::Column::Id, agent::Column::Name])
            .filter(agent::Column::Id.is_in(agents))
            .into_tuple()
            .all(db)
            .await?;
        let numbers: Vec<(PhoneNumberId, String)> = phone_number::Entity::of(tenant)
            .select_only()
            .columns([phone_number::Column::Id, phone_number::Column::Label])
            .filter(phone_number::Column::Id.is_in(numbers))
            .into_tuple()
            .all(db)
            .await?;
        Ok(Self {
            agents: agents.into_iter().collect(),
            numbers: numbers.into_iter().collect(),
            hands: ManualActs::new(),
        })
    }

    /// As [`Self::of`], with the people and keys that ended or transferred calls by hand.
    pub async fn and_hands(visit: &SignedIn, calls: &[CallView]) -> Result<Self, ApiError> {
        let names = Self::of(visit.store().api_reader(), visit.tenant(), calls).await?;
        let ended = calls
            .iter()
            .map(|call| (call.id, call.ended_at, call.hangup_reason));
        let hands = by_hand::of(visit, ended).await?;
        Ok(Self { hands, ..names })
    }

    /// The reason and author of a call's end; `None` while it runs.
    pub fn outcome(&self, view: &DashboardView, call: &CallView) -> Option<String> {
        let (by, hand) = (call.hangup_initiator, self.hands.get(&call.id));
        call.hangup_reason
            .map(|reason| words::outcome(view, reason, by, hand))
    }

    /// The agent's name, if the agent still exists.
    pub fn agent(&self, call: &CallView) -> Option<&str> {
        self.agents.get(&call.agent_id?).map(String::as_str)
    }

    /// The called number's label.
    pub fn number(&self, call: &CallView) -> Option<&str> {
        self.numbers.get(&call.phone_number_id).map(String::as_str)
    }
}

/// A table of calls. The script finds its body by `data-rows` and inserts new rows at the top.
pub fn table(view: &DashboardView, caption: &str, calls: &[CallView], names: &CallNames) -> Markup {
    html! {
        table.calls role="table" {
            caption.unseen { (caption) }
            thead role="rowgroup" {
                tr role="row" {
                    @for column in columns(view) { th role="columnheader" scope="col" { (column) } }
                }
            }
            tbody role="rowgroup" data-rows {
                @for call in calls { (row(view, call, names)) }
            }
        }
    }
}

fn columns(view: &DashboardView) -> [String; 5] {
    [
        "calls-when",
        "calls-caller",
        "calls-answered-by",
        "calls-state",
        "calls-talk",
    ]
    .map(|id| view.t(id))
}

/// The row of a call.
pub fn row(view: &DashboardView, call: &CallView, names: &CallNames) -> Markup {
    let cells = [
        html! { a href=(path_of(call.id)) { (view.time(call.started_at)) } },
        words::caller(
            view,
            &call.caller_number,
            call.caller_number.as_str() == ERASED,
        ),
        served_by(view, call, names),
        state(view, call, names),
        html! {
            @match call.talk_time_seconds {
                Some(seconds) => (words::duration(view, seconds)),
                None => span.muted { "–" },
            }
        },
    ];
    html! {
        tr role="row" id=(call.id) {
            @for (column, cell) in columns(view).iter().zip(cells) {
                td role="cell" data-column=(column) { (cell) }
            }
        }
    }
}

fn served_by(view: &DashboardView, call: &CallView, names: &CallNames) -> Markup {
    html! {
        @match (names.agent(call), call.agent_id) {
            (Some(name), _) => (name),
            (None, Some(_)) => span.muted { (view.t("calls-agent-gone")) },
            (None, None) => span.muted { (view.t("calls-agent-none")) },
        }
        br;
        span.muted { (names.number(call).unwrap_or_else(|| call.callee_number.as_str())) }
    }
}

fn state(view: &DashboardView, call: &CallView, names: &CallNames) -> Markup {
    html! {
        (words::status(view, call.status))
        @if let Some(outcome) = names.outcome(view, call) {
            br;
            span.muted { (outcome) }
        }
    }
}
