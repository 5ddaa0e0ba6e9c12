//! Filters of the list of calls, kept in its address. They are those of `GET /calls`, except that dates are the
//! reader's days and the last day is included.

use dikala_entities::{
    AgentId, CallStatus, ChannelKind, Millis, OfTenant, PhoneNumberId, agent, phone_number,
};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, DbErr, QueryFilter, QueryOrder, QuerySelect};
use serde_json::{Map, Value};

use super::{
    super::{
        components::Field,
        filters::SearchForm,
        form::{FormState, FormValues},
        format::Zone,
        names,
        view::SignedIn,
    },
    PATH, words,
};
use crate::{
    http::{error::ApiError, extract::FormFields},
    operations::calls::{callers::CallerPart, filter::CallFilter},
};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Calls on one page.
pub const PAGE: i64 = 25;
/// Newest agents, and newest numbers, that the filter offers. Links from their pages reach the others.
const CHOICES_MAX: u64 = 25;
/// The parameters, by the API's names.
const NAMES: [&str; 8] = [
    "status",
    "from",
    "to",
    "agentId",
    "phoneNumberId",
    "callerNumber",
    "channel",
    "before",
];
/// Short names of parameters, for typing an address.
const ALIASES: [(&str, &str); 4] = [
    ("state", "status"),
    ("agent", "agentId"),
    ("number", "phoneNumberId"),
    ("caller", "callerNumber"),
];

/// A parsed query string of the list.
#[derive(Clone, Debug)]
pub struct CallQuery {
    /// The non-empty parameters, by the API's names, as they were typed.
    typed: Vec<(&'static str, String)>,
    pub filter: CallFilter,
}

impl CallQuery {
    /// Reads a query string. Invalid values return the filled form with its errors. Unknown parameters, such as
    /// those of a campaign, are ignored.
    pub fn read(query: &str, zone: &Zone) -> Result<Result<Self, FormState>, ApiError> {
        let typed = typed(&FormValues::parse(query.as_bytes()));
        match filter(&typed, zone) {
            Ok(filter) => Ok(Ok(Self { typed, filter })),
            Err(error) => {
                let again = FormValues::parse(encoded(&typed).as_bytes());
                FormState::again(again, error).map(Err)
            }
        }
    }

    /// True if the page shows the newest calls.
    pub const fn is_first_page(&self) -> bool {
        self.filter.before.is_none()
    }

    /// True if any filter is set; the page's position does not count.
    pub fn is_narrow(&self) -> bool {
        self.typed.iter().any(|(name, _)| *name != "before")
    }

    /// The filters as a query string, without the page's position.
    pub fn query(&self) -> String {
        let kept: Vec<_> = self
            .typed
            .iter()
            .filter(|(name, _)| *name != "before")
            .cloned()
            .collect();
        encoded(&kept)
    }

    pub fn filled(&self) -> FormState {
        FormState::with(self.typed.clone())
    }
}

fn encoded(typed: &[(&'static str, String)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(typed);
    query.finish()
}

/// The typed parameters, by the API's names.
fn typed(sent: &FormValues) -> Vec<(&'static str, String)> {
    let alias = |name: &str| ALIASES.iter().find(|(_, known)| *known == name);
    let value = |name: &'static str| {
        let short = || alias(name).and_then(|(short, _)| sent.text(short));
        let given = sent.text(name).or_else(short)?.trim();
        (!given.is_empty()).then(|| (name, given.to_owned()))
    };
    NAMES.into_iter().filter_map(value).collect()
}

fn filter(typed: &[(&'static str, String)], zone: &Zone) -> Result<CallFilter, ApiError> {
    let (mut fields, mut part) = (Map::new(), None);
    fields.insert("limit".to_owned(), Value::from(PAGE.to_string()));
    for (name, text) in typed {
        let text = match *name {
            "from" => day(text, zone, Zone::midnight),
            "to" => day(text, zone, Zone::end_of_day),
            "callerNumber" => match CallerPart::read(text) {
                Some(read) => {
                    part = Some(read);
                    continue;
                }
                None => text.clone(),
            },
            _ => text.clone(),
        };
        fields.insert((*name).to_owned(), Value::from(text));
    }
    let filter = CallFilter::read(&FormFields::from_body(Value::Object(fields))?)?;
    let part = part.transpose();
    let part = part.map_err(|fault| ApiError::field(fault.in_field("callerNumber")))?;
    Ok(CallFilter {
        part,
        is_called: false,
        ..filter
    })
}

/// Reads a date as its edge in the reader's zone; other texts are returned unchanged.
fn day(text: &str, zone: &Zone, edge: fn(&Zone, &str) -> Option<Millis>) -> String {
    edge(zone, text).map_or_else(|| text.to_owned(), |at| at.to_string())
}

/// Days that a link shows: their number, and the message id of its name.
const PERIODS: [(i64, &str); 3] = [
    (1, "calls-period-today"),
    (7, "calls-period-7"),
    (30, "calls-period-30"),
];

/// Links to the calls of the last days, which keep the other filters.
fn periods(visit: &SignedIn, filled: &FormState) -> Markup {
    let path = |days: i64| {
        let first = visit.now().plus_ms(-(days - 1) * DAY_MS);
        let kept = NAMES
            .iter()
            .filter(|name| !["from", "to", "before"].contains(*name))
            .map(|name| (*name, filled.text(name).to_owned()))
            .filter(|(_, text)| !text.is_empty());
        let first = ("from", visit.zone().date(first));
        let all: Vec<_> = kept.chain([first]).collect();
        (
            all[all.len() - 1].1.clone(),
            format!("{PATH}?{}", encoded(&all)),
        )
    };
    html! {
        nav.tabs aria-label=(visit.t("calls-period")) {
            @for (days, name) in PERIODS {
                @let (from, path) = path(days);
                @let is_it = filled.text("from") == from && filled.text("to").is_empty();
                a href=(path) aria-current=[is_it.then_some("true")] { (visit.t(name)) }
            }
        }
    }
}

/// The search box and the filters.
pub async fn form(visit: &SignedIn, filled: &FormState) -> Result<Markup, DbErr> {
    let statuses = CallStatus::ALL.iter();
    let statuses = statuses.map(|status| (status.to_string(), visit.t(words::status_id(*status))));
    let channels = ChannelKind::ALL.iter();
    let channels =
        channels.map(|channel| (channel.to_string(), visit.t(words::channel_id(*channel))));
    let agents = agents(visit, filled.text("agentId")).await?;
    let numbers = numbers(visit, filled.text("phoneNumberId")).await?;
    let any = |choices: Vec<(String, String)>| {
        let any = (String::new(), visit.t("calls-any"));
        std::iter::once(any).chain(choices).collect::<Vec<_>>()
    };
    let fields = [
        Field::select("status", visit.t("calls-state"), any(statuses.collect())),
        Field::date("from", visit.t("calls-from")),
        Field::date("to", visit.t("calls-to")),
        Field::select("agentId", visit.t("calls-agent"), any(agents)),
        Field::select("phoneNumberId", visit.t("calls-number"), any(numbers)),
        Field::select("channel", visit.t("calls-channel"), any(channels.collect())),
    ];
    // A period is shown by its link.
    let is_filter = |name: &&&str| !["before", "from", "callerNumber"].contains(*name);
    let has_filter = NAMES
        .iter()
        .filter(is_filter)
        .any(|name| !filled.text(name).is_empty());
    let is_narrow = NAMES
        .iter()
        .any(|name| *name != "before" && !filled.text(name).is_empty());
    let search = SearchForm {
        path: PATH,
        searched: Field::search("callerNumber", visit.t("calls-search")),
        beside: periods(visit, filled),
        filters: &fields,
        is_open: has_filter || !filled.errors().is_empty(),
        all: is_narrow.then_some("calls-filter-none"),
    };
    Ok(search.show(visit, filled))
}

/// The tenant's newest agents and the selected one.
async fn agents(visit: &SignedIn, chosen: &str) -> Result<Vec<(String, String)>, DbErr> {
    let db = visit.store().api_reader();
    let select = agent::Entity::of(visit.tenant())
        .select_only()
        .columns([agent::Column::Id, agent::Column::Name]);
    let newest = select
        .clone()
        .order_by_desc(agent::Column::Id)
        .limit(CHOICES_MAX);
    let mut rows: Vec<(AgentId, String)> = newest.into_tuple().all(db).await?;
    let chosen: Option<AgentId> = chosen.parse().ok();
    if let Some(chosen) = chosen.filter(|chosen| !rows.iter().any(|(id, _)| id == chosen)) {
        rows.extend(
            select
                .filter(agent::Column::Id.eq(chosen))
                .into_tuple()
                .all(db)
                .await?,
        );
    }
    let mut choices: Vec<(String, String)> = rows
        .into_iter()
        .map(|(id, name)| (id.to_string(), names::choice(&name)))
        .collect();
    choices.sort_by_cached_key(|(_, name)| name.to_lowercase());
    Ok(choices)
}

/// The tenant's newest numbers and the selected one.
async fn numbers(visit: &SignedIn, chosen: &str) -> Result<Vec<(String, String)>, DbErr> {
    let db = visit.store().api_reader();
    let select = phone_number::Entity::of(visit.tenant());
    let newest = select
        .clone()
        .order_by_desc(phone_number::Column::Id)
        .limit(CHOICES_MAX);
    let mut rows = newest.all(db).await?;
    let chosen: Option<PhoneNumberId> = chosen.parse().ok();
    if let Some(chosen) = chosen.filter(|chosen| !rows.iter().any(|row| row.id == *chosen)) {
        rows.extend(
            select
                .filter(phone_number::Column::Id.eq(chosen))
                .all(db)
                .await?,
        );
    }
    let choice = |row: phone_number::Model| {
        (
            row.id.to_string(),
            names::choice(&format!("{} {}", row.did.as_str(), row.label)),
        )
    };
    let mut choices: Vec<(String, String)> = rows.into_iter().map(choice).collect();
    choices.sort_by(|one, two| one.1.cmp(&two.1));
    Ok(choices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jakarta() -> Zone {
        Zone::named("Asia/Jakarta").expect("a zone")
    }

    fn read(query: &str) -> CallQuery {
        let read = CallQuery::read(query, &jakarta()).expect("is about filters");
        read.unwrap_or_else(|filled| panic!("{query}: {:?}", filled.errors()))
    }

    fn at(text: &str) -> Option<Millis> {
        Some(Millis::parse_rfc3339(text).expect("a time"))
    }

    #[test]
    fn days_are_the_readers_and_the_last_one_counts() {
        let filter = read("from=2026-01-15&to=2026-01-15").filter;
        assert_eq!(filter.from, at("2026-01-14T17:00:00Z"));
        assert_eq!(filter.to, at("2026-01-15T17:00:00Z"));
        let exact = read("from=2026-01-15T03:30:00Z&to=2026-01-15T03:31:00%2B07:00").filter;
        assert_eq!(
            (exact.from, exact.to),
            (at("2026-01-15T03:30:00Z"), at("2026-01-14T20:31:00Z"))
        );
    }

    #[test]
    fn what_is_left_empty_or_unknown_filters_nothing() {
        let asked = read("status=&from=+&agentId=&done=call-erased&utm=x");
        assert!(!asked.is_narrow() && asked.is_first_page());
        assert_eq!(asked.query(), "");
        assert_eq!(asked.filter.page.limit, PAGE);
    }

    #[test]
    fn short_names_mean_the_same_and_a_page_keeps_the_filters() {
        let asked =
            read("state=failed&caller=%2B62+812-9876-5432&before=call_01k9zv3m8rj2q4w6y8a0c2e4g6");
        assert_eq!(asked.filter.status, Some(CallStatus::Failed));
        let part = CallerPart::read("+62 812-9876-5432").expect("a number");
        assert_eq!(asked.filter.part, part.ok());
        assert_eq!(asked.filter.caller, None);
        assert!(asked.is_narrow() && !asked.is_first_page());
        assert_eq!(
            asked.query(),
            "status=failed&callerNumber=%2B62+812-9876-5432"
        );
        assert_eq!(read(&asked.query()).query(), asked.query());
    }

    #[test]
    fn what_is_wrong_stands_beside_its_field_as_it_was_typed() {
        let read = CallQuery::read("status=busy&from=tomorrow&callerNumber=x", &jakarta());
        let wrong = read.expect("is about filters").expect_err("is refused");
        for (field, text) in [("status", "busy"), ("from", "tomorrow")] {
            assert_eq!(wrong.errors_of(field).count(), 1, "{field}");
            assert_eq!(wrong.text(field), text);
        }
        assert_eq!(wrong.errors().len(), 2);
    }

    #[test]
    fn a_caller_without_a_number_is_searched_by_its_words() {
        let filter = read("caller=anonymous+-+(hidden)").filter;
        let caller = filter.caller.expect("a caller");
        assert_eq!(
            (caller.as_str(), filter.part),
            ("anonymous - (hidden)", None)
        );
    }
}
