//! Rows of calls, for the list, the home page, and single rows that the stream updates.

use std::collections::{BTreeSet, HashMap};

use dikala_entities::{
    AgentId, ChannelKind, OfTenant, PhoneNumberId, TenantId, agent, phone_number,
};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, QueryFilter, QuerySelect};

use super::{
    super::{
        format,
        names::cut,
        view::{DashboardView, SignedIn},
    },
    by_hand::{self, ManualActs},
    path_of, words,
};
use crate::{
    http::error::ApiError,
    operations::calls::{CallView, ERASED},
};

/// Longest shown beginning of a summary, in characters: with others than ASCII, which need more bytes, and without.
const ABOUT_CHARS_MAX: (usize, usize) = (50, 120);
/// Longest shown name of an agent or number, in characters.
const NAME_CHARS_MAX: usize = 24;

/// Names of agents and numbers.
#[derive(Clone, Debug, Default)]
pub struct CallNames {
    agents: HashMap<AgentId, String>,
    numbers: HashMap<PhoneNumberId, String>,
    hands: ManualActs,
    /// The tenant has more than one agent, or more than one number: rows name them.
    has_several: bool,
}

impl CallNames {
    /// The names that occur in these calls.
    pub async fn of(
        db: &impl ConnectionTrait,
        tenant: TenantId,
        calls: &[CallView],
    ) -> Result<Self, DbErr> {
        let agents: BTreeSet<AgentId> = calls.iter().filter_map(|call| call.agent_id).collect();
        let numbers: BTreeSet<PhoneNumberId> = calls
            .iter()
            .filter_map(|call| call.phone_number_id)
            .collect();
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
            has_several: false,
        })
    }

    /// As [`Self::of`], with all that rows of the list show.
    pub async fn for_rows(visit: &SignedIn, calls: &[CallView]) -> Result<Self, ApiError> {
        let names = Self::of(visit.store().api_reader(), visit.tenant(), calls).await?;
        let ended = calls
            .iter()
            .map(|call| (call.id, call.ended_at, call.hangup_reason));
        let hands = by_hand::of(visit, ended).await?;
        let has_several = has_several(visit).await?;
        Ok(Self {
            hands,
            has_several,
            ..names
        })
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
        self.numbers.get(&call.phone_number_id?).map(String::as_str)
    }
}

/// True if the tenant has more than one agent or number.
async fn has_several(visit: &SignedIn) -> Result<bool, DbErr> {
    let (db, tenant) = (visit.store().api_reader(), visit.tenant());
    let agents = agent::Entity::of(tenant).select_only();
    let agents = agents.column(agent::Column::Id).limit(2).into_tuple();
    let agents: Vec<AgentId> = agents.all(db).await?;
    let numbers = phone_number::Entity::of(tenant).select_only();
    let numbers = numbers.column(phone_number::Column::Id).limit(2);
    let numbers: Vec<PhoneNumberId> = numbers.into_tuple().all(db).await?;
    Ok(agents.len() > 1 || numbers.len() > 1)
}

/// A table of calls, with the days as headings. The script finds a day's rows by `data-rows` and inserts new ones at the top.
pub fn table(view: &DashboardView, caption: &str, calls: &[CallView], names: &CallNames) -> Markup {
    let day = |call: &CallView| view.zone().date(call.started_at);
    let zone = view.zone().short_name(view.now());
    html! {
        table.calls role="table" data-days {
            caption.unseen { (caption) }
            thead.unseen role="rowgroup" {
                tr role="row" {
                    th role="columnheader" scope="col" { (view.t("calls-when")) " (" (zone) ")" }
                    @for column in ["calls-caller", "calls-about", "calls-state", "calls-talk"] {
                        th role="columnheader" scope="col" { (view.t(column)) }
                    }
                }
            }
            @for of_day in calls.chunk_by(|one, other| day(one) == day(other)) {
                tbody role="rowgroup" data-rows=(day(&of_day[0])) {
                    tr.day role="row" { th role="rowheader" scope="rowgroup" colspan="5" { (day_name(view, &of_day[0])) } }
                    @for call in of_day { (row(view, call, names)) }
                }
            }
        }
    }
}

fn day_name(view: &DashboardView, call: &CallView) -> String {
    view.zone()
        .weekday(view.lang(), call.started_at, view.now())
}

/// A row that the script inserts, with its day.
pub fn new_row(view: &DashboardView, call: &CallView, names: &CallNames) -> Markup {
    row_of(view, call, names, true)
}

/// The row of a call.
pub fn row(view: &DashboardView, call: &CallView, names: &CallNames) -> Markup {
    row_of(view, call, names, false)
}

fn row_of(view: &DashboardView, call: &CallView, names: &CallNames, is_new: bool) -> Markup {
    let date = is_new.then(|| view.zone().date(call.started_at));
    let day = is_new.then(|| day_name(view, call));
    let is_erased = call.caller_number.as_str() == ERASED;
    html! {
        tr role="row" id=(call.id) data-state=(call.status) data-day=[date] data-day-name=[day] {
            td.time role="cell" { (time(view, call)) }
            td.caller role="cell" { (words::caller(view, &call.caller_number, is_erased)) }
            td.about role="cell" { (about(view, call, names)) }
            td.state role="cell" { (state(view, call, names)) }
            td.talk role="cell" {
                @if let Some(seconds) = call.talk_time_seconds { (words::duration(view, seconds)) }
            }
        }
    }
}

/// The time of the ring, which leads to the call.
fn time(view: &DashboardView, call: &CallView) -> Markup {
    let at = call.started_at;
    let clock = view.zone().clock_with_seconds(view.lang(), at);
    let caller = match call.caller_number.as_str() {
        ERASED => view.t("calls-erased"),
        caller => caller.to_owned(),
    };
    let parts = [
        ("caller", caller.as_str().into()),
        ("time", clock.as_str().into()),
    ];
    html! {
        a href=(path_of(call.id)) aria-label=(view.tn("calls-from-caller", &parts)) {
            time datetime=(at) title=(format::utc(at)) { (clock) }
        }
    }
}

/// The summary's beginning, and where the call came to if there are several agents or numbers.
fn about(view: &DashboardView, call: &CallView, names: &CallNames) -> Markup {
    html! {
        @if let Some(summary) = &call.transcript_summary { span { (cut(summary, about_chars(summary))) } " " }
        @if names.has_several { span.muted { (served_by(view, call, names)) } }
    }
}

fn about_chars(summary: &str) -> usize {
    let (other, ascii) = ABOUT_CHARS_MAX;
    match summary.is_ascii() {
        true => ascii,
        false => other,
    }
}

fn served_by(view: &DashboardView, call: &CallView, names: &CallNames) -> String {
    let agent = match (names.agent(call), call.agent_id) {
        (Some(name), _) => name.to_owned(),
        (None, Some(_)) => view.t("calls-agent-gone"),
        (None, None) => view.t("calls-agent-none"),
    };
    let number = match call.channel {
        ChannelKind::Web => view.t("calls-channel-web"),
        _ => {
            let number = names.number(call);
            number
                .unwrap_or_else(|| call.callee_number.as_str())
                .to_owned()
        }
    };
    let (agent, number) = (cut(&agent, NAME_CHARS_MAX), cut(&number, NAME_CHARS_MAX));
    format!("{agent} · {number}")
}

/// The state of a running call, or how it ended.
fn state(view: &DashboardView, call: &CallView, names: &CallNames) -> Markup {
    match names.outcome(view, call) {
        Some(outcome) => words::ended(view, call.status, &outcome),
        None => words::status(view, call.status),
    }
}
