//! Which of a tenant's calls are asked for: the filters of the list, and where a page of it begins.

use dikala_entities::{
    AgentId, CallId, CallStatus, CallerNumber, Millis, OfTenant, PhoneNumberId, TenantId, call,
};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, QuerySelect};
use serde_json::Value;

use super::Page;
use crate::http::{
    error::ApiError,
    extract::{Form, Parsed, Reader, id, instant, word},
    field::{Fault, FieldCode},
};

/// What is asked for. Without anything, all calls.
#[derive(Clone, Debug)]
pub struct Filter {
    pub page: Page,
    pub status: Option<CallStatus>,
    /// Inclusive.
    pub from: Option<Millis>,
    /// Exclusive.
    pub to: Option<Millis>,
    pub agent: Option<AgentId>,
    pub number: Option<PhoneNumberId>,
    pub caller: Option<CallerNumber>,
    pub before: Option<CallId>,
}

impl Filter {
    /// Reads the parameters of `GET /calls`.
    pub fn read(form: &Form) -> Result<Self, ApiError> {
        form.read(&[], |form| {
            Some(Self {
                page: Page::read(form),
                status: form.optional("status", None, word("a status")),
                from: form.optional("from", None, instant),
                to: form.optional("to", None, instant),
                agent: form.optional("agentId", None, id("an agent")),
                number: form.optional("phoneNumberId", None, id("a phone number")),
                caller: form.optional("callerNumber", None, caller_number),
                before: cursor(form),
            })
        })
    }

    /// The calls that it lets through, wherever the page is.
    pub fn condition(&self) -> Condition {
        Condition::all()
            .add_option(self.status.map(|status| call::Column::Status.eq(status)))
            .add_option(self.from.map(|from| call::Column::StartedAt.gte(from)))
            .add_option(self.to.map(|to| call::Column::StartedAt.lt(to)))
            .add_option(self.agent.map(|agent| call::Column::AgentId.eq(agent)))
            .add_option(
                self.number
                    .map(|number| call::Column::PhoneNumberId.eq(number)),
            )
            .add_option(
                self.caller
                    .clone()
                    .map(|caller| call::Column::CallerNumber.eq(caller)),
            )
    }
}

/// Where the page before ended. Calls that come in meanwhile do not move what is older than that, as they do with `offset`.
fn cursor(form: &mut Reader<'_>) -> Option<CallId> {
    form.optional("before", None, id("a call"))
}

pub fn caller_number(value: &Value) -> Parsed<CallerNumber> {
    let text = value.as_str().unwrap_or_default();
    // A plus that was not percent-encoded arrives in a query string as a blank.
    let mended = match text.strip_prefix(' ') {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => format!("+{digits}"),
        _ => text.to_owned(),
    };
    mended
        .parse()
        .map_err(|error| Fault::new(FieldCode::InvalidFormat, format!("{error}")).into())
}

/// Where the call that a page begins after stands in the order of the list.
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
        ApiError::field(Fault::new(FieldCode::NotFound, predicate).in_field("before"))
    })?;
    Ok((at, before))
}

/// What comes after that place in the list.
pub fn older_than((at, id): (Millis, CallId)) -> Condition {
    let same_moment = Condition::all()
        .add(call::Column::StartedAt.eq(at))
        .add(call::Column::Id.lt(id));
    // Said twice, so that the index begins where the page does.
    Condition::all().add(call::Column::StartedAt.lte(at)).add(
        Condition::any()
            .add(call::Column::StartedAt.lt(at))
            .add(same_moment),
    )
}
