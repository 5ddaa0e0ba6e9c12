//! Filters of the list of calls: the conditions, the start of the page, and the choice of index.
//!
//! A query with several filters is read by one index; the other filters are checked on each row. With a bad choice,
//! the database reads many calls to find few. So the calls behind each candidate index are counted first, up to
//! [`COUNTED_MAX`] (of running calls: all). The first index with fewer calls is used, otherwise the one whose counted calls reach back
//! furthest. The databases cannot choose: SQLite has no statistics and must be told, PostgreSQL plans a statement
//! before it knows the bound values.

use dikala_entities::{
    AgentId, CallId, CallStatus, CallerNumber, ChannelKind, Millis, OfTenant, PhoneNumberId,
    TenantId, call,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbBackend, DbErr, PartialModelTrait, QueryFilter,
    QueryOrder, QuerySelect, QueryTrait, Select, Statement,
    sea_query::{BinOper, Expr, ExprTrait, Value},
};
use serde_json::Value as Json;

use super::callers::CallerPart;
use crate::{
    http::{
        error::ApiError,
        extract::{
            BlankRule, FormFields, FormReader, ParseResult, SEARCHED, id, instant, text, word,
        },
        field::{FieldCode, ValueFault},
    },
    operations::PageRange,
};

/// Calls counted per index, at most.
const COUNTED_MAX: u64 = 1_000;

/// Call attributes that indexes are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallAttribute {
    Caller,
    /// The caller, if it is one of [`call::nameless`].
    Nameless,
    Agent,
    Number,
    Channel,
    /// The status of a running call.
    Running,
    /// The status with which a call ended.
    Outcome,
}

impl CallAttribute {
    /// The attribute of an index that also holds the calls outside this partial index.
    const fn wider(self) -> Option<Self> {
        match self {
            Self::Nameless => Some(Self::Caller),
            Self::Caller
            | Self::Agent
            | Self::Number
            | Self::Channel
            | Self::Running
            | Self::Outcome => None,
        }
    }
}

/// An index over a tenant's calls: these attributes, then the start time.
#[derive(Debug, PartialEq, Eq)]
struct Index {
    name: &'static str,
    by: &'static [CallAttribute],
}

const BY_CALLER: Index = Index::new("calls_tenant_caller", &[CallAttribute::Caller]);
/// The most selective first.
const INDEXES: [Index; 12] = [
    Index::new("calls_tenant_outcome", &[CallAttribute::Running]),
    Index::new(
        "calls_nameless_agent",
        &[CallAttribute::Nameless, CallAttribute::Agent],
    ),
    Index::new(
        "calls_nameless_number",
        &[CallAttribute::Nameless, CallAttribute::Number],
    ),
    Index::new(
        "calls_nameless_outcome",
        &[CallAttribute::Nameless, CallAttribute::Outcome],
    ),
    BY_CALLER,
    Index::new(
        "calls_agent_outcome",
        &[CallAttribute::Agent, CallAttribute::Outcome],
    ),
    Index::new(
        "calls_number_outcome",
        &[CallAttribute::Number, CallAttribute::Outcome],
    ),
    Index::new(
        "calls_tenant_agent_number",
        &[CallAttribute::Agent, CallAttribute::Number],
    ),
    Index::new("calls_tenant_outcome", &[CallAttribute::Outcome]),
    Index::new("calls_tenant_number", &[CallAttribute::Number]),
    Index::new("calls_tenant_agent", &[CallAttribute::Agent]),
    Index::new("calls_tenant_channel", &[CallAttribute::Channel]),
];

impl Index {
    const fn new(name: &'static str, by: &'static [CallAttribute]) -> Self {
        Self { name, by }
    }

    /// Names this index in the statement on SQLite, which has no statistics and could choose a bad index. PostgreSQL
    /// has statistics, and no way to name an index.
    fn told(&self, mut statement: Statement) -> Statement {
        const FROM: &str = "FROM \"calls\"";
        if statement.db_backend == DbBackend::Sqlite {
            let named = format!("{FROM} INDEXED BY {}", self.name);
            statement.sql = statement.sql.replacen(FROM, &named, 1);
        }
        statement
    }

    /// True if the index contains this attribute.
    fn covers(&self, by: CallAttribute) -> bool {
        self.by
            .iter()
            .any(|own| *own == by || Some(*own) == by.wider())
    }
}

/// A condition on calls, and the index to read them by, if there is a choice.
#[derive(Debug)]
pub struct IndexedCalls {
    pub calls: Condition,
    index: Option<&'static Index>,
    /// The oldest call that is searched, if older ones may match, too.
    pub since: Option<(Millis, CallId)>,
}

impl IndexedCalls {
    /// Runs a query over these calls.
    pub async fn read<T: PartialModelTrait>(
        &self,
        db: &impl ConnectionTrait,
        select: Select<call::Entity>,
    ) -> Result<Vec<T>, DbErr> {
        let select = select.into_partial_model::<T>();
        let statement = self.told(select.into_statement(db.get_database_backend()));
        T::find_by_statement(statement).all(db).await
    }

    /// The statement with the index named, if there is one.
    pub fn told(&self, statement: Statement) -> Statement {
        match self.index {
            Some(index) => index.told(statement),
            None => statement,
        }
    }
}

/// The filters of a list of calls. The default matches all calls.
#[derive(Clone, Debug, Default)]
pub struct CallFilter {
    pub page: PageRange,
    pub status: Option<CallStatus>,
    /// Inclusive.
    pub from: Option<Millis>,
    /// Exclusive.
    pub to: Option<Millis>,
    pub agent: Option<AgentId>,
    pub number: Option<PhoneNumberId>,
    pub caller: Option<CallerNumber>,
    /// Digits of the caller's number.
    pub part: Option<CallerPart>,
    /// The digits may also be in the called number.
    pub is_called: bool,
    pub channel: Option<ChannelKind>,
    pub before: Option<CallId>,
}

impl CallFilter {
    /// Parses the parameters of `GET /calls`.
    pub fn read(form: &FormFields) -> Result<Self, ApiError> {
        form.read(&[], |form| {
            let part = form.optional("q", None, part_of_number);
            Some(Self {
                page: PageRange::read(form),
                status: form.optional("status", None, word("a status")),
                from: form.optional("from", None, instant),
                to: form.optional("to", None, instant),
                agent: form.optional("agentId", None, id("an agent")),
                number: form.optional("phoneNumberId", None, id("a phone number")),
                caller: form.optional("callerNumber", None, caller_number),
                is_called: part.is_some(),
                part,
                channel: form.optional("channel", None, word("a channel")),
                before: cursor(form),
            })
        })
    }

    /// The condition of all filters, without the position of the page.
    pub fn condition(&self) -> Condition {
        let part = self.part.as_ref().map(CallerPart::condition);
        self.by(&self.asked()).add(self.time()).add_option(part)
    }

    /// The matching calls older than `start`, read by the index that leaves the fewest.
    pub async fn by_index(
        &self,
        db: &impl ConnectionTrait,
        tenant: TenantId,
        start: Option<(Millis, CallId)>,
    ) -> Result<IndexedCalls, DbErr> {
        let older = start.map_or_else(Condition::all, older_than);
        let within = older.add(self.time());
        let asked = self.asked();
        if let Some(part) = &self.part {
            let until = start.map(|(at, _)| at).into_iter().chain(self.to).min();
            let times = (self.from, until);
            let found = part.search(db, tenant, times, self.is_called).await?;
            let others = asked.iter().map(|by| self.looked_up(*by));
            let others = others.fold(Condition::all(), Condition::add);
            let since = found.since;
            let since = since.map(|(since, _)| call::Column::StartedAt.gte(since));
            return Ok(IndexedCalls {
                calls: others.add(found.condition).add(within).add_option(since),
                index: found.is_by_index.then_some(&BY_CALLER),
                since: found.since,
            });
        }
        let indexes = fitting(&asked);
        let index = match indexes.as_slice() {
            [] => None,
            [only] => Some(*only),
            several => self.narrowest(db, tenant, &within, several).await?,
        };
        let known = index.map_or(&[][..], |index| index.by);
        let others = asked
            .iter()
            .filter(|by| index.is_none_or(|index| !index.covers(**by)));
        let others = others.fold(Condition::all(), |all, by| all.add(self.looked_up(*by)));
        let calls = self.by(known).add(within).add(others);
        Ok(IndexedCalls {
            calls,
            index,
            since: None,
        })
    }

    /// The attributes that are filtered, besides the time.
    fn asked(&self) -> Vec<CallAttribute> {
        let status = self.status.map(|status| match status {
            CallStatus::Ended | CallStatus::Dropped | CallStatus::Failed => CallAttribute::Outcome,
            CallStatus::Ringing | CallStatus::Answered => CallAttribute::Running,
        });
        let caller = self
            .caller
            .as_ref()
            .map(|caller| match caller.as_str().starts_with('+') {
                true => CallAttribute::Caller,
                false => CallAttribute::Nameless,
            });
        [
            caller,
            self.agent.map(|_| CallAttribute::Agent),
            self.number.map(|_| CallAttribute::Number),
            self.channel.map(|_| CallAttribute::Channel),
            status,
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn time(&self) -> Condition {
        Condition::all()
            .add_option(self.from.map(|from| call::Column::StartedAt.gte(from)))
            .add_option(self.to.map(|to| call::Column::StartedAt.lt(to)))
    }

    /// The first of these indexes that leaves fewer than [`COUNTED_MAX`] calls, otherwise the one whose counted calls
    /// reach back furthest.
    async fn narrowest(
        &self,
        db: &impl ConnectionTrait,
        tenant: TenantId,
        within: &Condition,
        indexes: &[&'static Index],
    ) -> Result<Option<&'static Index>, DbErr> {
        let mut furthest: Option<(Millis, &Index)> = None;
        for index in indexes {
            let counted = call::Entity::of(tenant)
                .select_only()
                .column(call::Column::StartedAt)
                .filter(self.by(index.by))
                .filter(within.clone())
                .order_by_desc(call::Column::StartedAt)
                .order_by_desc(call::Column::Id)
                .offset(COUNTED_MAX - 1)
                .limit(1)
                .build(db.get_database_backend());
            let Some(last) = db.query_one_raw(index.told(counted)).await? else {
                return Ok(Some(index));
            };
            let last: Millis = last.try_get("", "started_at")?;
            if furthest.is_none_or(|(at, _)| last < at) {
                furthest = Some((last, index));
            }
        }
        Ok(furthest.map(|(_, index)| index))
    }

    /// The condition on these attributes, in a form that indexes are used for.
    fn by(&self, known: &[CallAttribute]) -> Condition {
        known.iter().fold(Condition::all(), |all, by| {
            let is = self.value(*by).map(|(column, value)| column.eq(value));
            match by {
                CallAttribute::Outcome => all.add_option(self.status.map(call::ended_as)),
                // Running calls are few; each is asked for its status.
                CallAttribute::Running => all.add(call::unfinished()).add(self.looked_up(*by)),
                CallAttribute::Nameless if known.len() > 1 => {
                    all.add_option(is).add(call::nameless())
                }
                CallAttribute::Nameless
                | CallAttribute::Caller
                | CallAttribute::Agent
                | CallAttribute::Number
                | CallAttribute::Channel => all.add_option(is),
            }
        })
    }

    /// The condition on one attribute, in a form that no index is used for.
    fn looked_up(&self, by: CallAttribute) -> Condition {
        let is = self.value(by).map(|(column, value)| {
            let same = Expr::col((call::Entity, column));
            let same = same.binary(BinOper::Custom("||"), Expr::cust("''"));
            same.eq(value)
        });
        Condition::all().add_option(is)
    }

    /// The column of an attribute, and the wanted value.
    fn value(&self, by: CallAttribute) -> Option<(call::Column, Value)> {
        Some(match by {
            CallAttribute::Caller | CallAttribute::Nameless => {
                (call::Column::CallerNumber, self.caller.clone()?.into())
            }
            CallAttribute::Agent => (call::Column::AgentId, self.agent?.into()),
            CallAttribute::Number => (call::Column::PhoneNumberId, self.number?.into()),
            CallAttribute::Channel => (call::Column::Channel, self.channel?.into()),
            CallAttribute::Running | CallAttribute::Outcome => {
                (call::Column::Status, self.status?.into())
            }
        })
    }
}

/// The indexes that contain filtered attributes only, without those that another one extends.
fn fitting(asked: &[CallAttribute]) -> Vec<&'static Index> {
    let known = |index: &Index| asked.iter().filter(|by| index.covers(**by)).count();
    let all: Vec<&Index> = INDEXES
        .iter()
        .filter(|index| known(index) == index.by.len())
        .collect();
    let knows_less = |index: &&&'static Index| {
        let more = |other: &&Index| {
            let shared = |by: &&CallAttribute| index.covers(**by) && other.covers(**by);
            other.by.len() > index.by.len() && asked.iter().filter(shared).count() == index.by.len()
        };
        all.iter().any(more)
    };
    let most = all.iter().filter(|index| !knows_less(index));
    most.copied().collect()
}

/// The cursor: the id of the last call of the previous page. Unlike with `offset`, new calls do not shift the page.
fn cursor(form: &mut FormReader<'_>) -> Option<CallId> {
    form.optional("before", None, id("a call"))
}

/// A number in a query string. A plus that was not percent-encoded arrives as a blank.
fn with_plus(value: &Json) -> String {
    let text = value.as_str().unwrap_or_default();
    match text.strip_prefix(' ') {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => format!("+{digits}"),
        _ => text.to_owned(),
    }
}

pub fn caller_number(value: &Json) -> ParseResult<CallerNumber> {
    with_plus(value).parse().map_err(|error| {
        let fault = ValueFault::new(FieldCode::InvalidFormat, format!("{error}"));
        fault.in_words("fault-phone").into()
    })
}

/// A part of a number, or the whole text by which a caller without a number is known.
fn part_of_number(value: &Json) -> ParseResult<CallerPart> {
    let (min, max) = SEARCHED;
    let text = text(min, max, BlankRule::Trim)(&Json::from(with_plus(value)))?;
    match CallerPart::read(&text) {
        Some(part) => Ok(part?),
        None => Ok(CallerPart::whole(&text)),
    }
}

/// The sort key of the last call of the previous page.
pub async fn end_of_page(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    before: CallId,
) -> Result<(Millis, CallId), ApiError> {
    let at: Option<Millis> = call::Entity::one_of(tenant, before)
        .select_only()
        .column(call::Column::StartedAt)
        .into_tuple()
        .one(db)
        .await?;
    let at = at.ok_or_else(|| {
        let predicate = "names no call of this account; begin again without it";
        ApiError::field(ValueFault::new(FieldCode::NotFound, predicate).in_field("before"))
    })?;
    Ok((at, before))
}

/// The calls after that position in the list.
pub fn older_than((at, id): (Millis, CallId)) -> Condition {
    let same_moment = Condition::all()
        .add(call::Column::StartedAt.eq(at))
        .add(call::Column::Id.lt(id));
    // Redundant, but lets the database start its index scan at the page.
    Condition::all().add(call::Column::StartedAt.lte(at)).add(
        Condition::any()
            .add(call::Column::StartedAt.lt(at))
            .add(same_moment),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_knows_less_than_another_is_left_out() {
        use CallAttribute::{Agent, Caller, Nameless, Number, Outcome, Running};

        let table: &[(&[CallAttribute], &[&[CallAttribute]])] = &[
            (&[], &[]),
            (&[Agent], &[&[Agent]]),
            (&[Outcome], &[&[Outcome]]),
            (&[Running], &[&[Running]]),
            (&[Agent, Number], &[&[Agent, Number]]),
            (&[Agent, Running], &[&[Running], &[Agent]]),
            (&[Agent, Outcome], &[&[Agent, Outcome]]),
            (&[Caller, Number], &[&[Caller], &[Number]]),
            (&[Nameless], &[&[Caller]]),
            (&[Nameless, Agent], &[&[Nameless, Agent]]),
            (&[Nameless, Outcome], &[&[Nameless, Outcome]]),
            (
                &[Nameless, Agent, Number],
                &[&[Nameless, Agent], &[Nameless, Number], &[Agent, Number]],
            ),
            (
                &[Caller, Agent, Number, Outcome],
                &[
                    &[Caller],
                    &[Agent, Outcome],
                    &[Number, Outcome],
                    &[Agent, Number],
                ],
            ),
        ];
        for (asked, indexes) in table {
            let fitting: Vec<&[CallAttribute]> =
                fitting(asked).iter().map(|index| index.by).collect();
            assert_eq!(fitting, *indexes, "{asked:?}");
        }
    }
}
