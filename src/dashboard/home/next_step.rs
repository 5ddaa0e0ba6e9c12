//! The next setup step of a new tenant, one at a time until the first call.

use dikala_entities::{OfTenant, PhoneNumber, agent, phone_number};
use sea_orm::{ColumnTrait, DbErr, QueryFilter, QueryOrder, QuerySelect};

use super::{super::view::SignedIn, today::CreditSummary};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupStep {
    MakeAgent,
    AskForNumber,
    AssignAgent,
    AskForMinutes,
    Call(PhoneNumber),
}

/// The things that a tenant has already.
#[derive(Clone, Debug, Default)]
struct SetupProgress {
    agent: bool,
    number: bool,
    minutes: bool,
    /// A number with an agent.
    ready: Option<PhoneNumber>,
}

impl SetupStep {
    const fn words_id(&self) -> &'static str {
        match self {
            Self::MakeAgent => "home-step-agent",
            Self::AskForNumber => "home-step-number",
            Self::AssignAgent => "home-step-assign",
            Self::AskForMinutes => "home-step-minutes",
            Self::Call(_) => "home-step-call",
        }
    }

    /// The step as a sentence.
    pub fn words(&self, visit: &SignedIn) -> String {
        match self {
            Self::Call(number) => visit.tn(self.words_id(), &[("number", number.as_str().into())]),
            _ => visit.t(self.words_id()),
        }
    }

    /// Path and message id of the link to the step's page; `None` if the step is done outside the dashboard.
    pub const fn link(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::MakeAgent => Some(("/dashboard/agents/new", "home-make-agent")),
            Self::AssignAgent => Some(("/dashboard/numbers", "home-assign-agent")),
            Self::AskForNumber | Self::AskForMinutes | Self::Call(_) => None,
        }
    }

    fn after(there: SetupProgress) -> Self {
        match there {
            SetupProgress { agent: false, .. } => Self::MakeAgent,
            SetupProgress { number: false, .. } => Self::AskForNumber,
            SetupProgress { ready: None, .. } => Self::AssignAgent,
            SetupProgress { minutes: false, .. } => Self::AskForMinutes,
            SetupProgress {
                ready: Some(number),
                ..
            } => Self::Call(number),
        }
    }
}

/// The next step; `None` once there was a call.
pub async fn read(
    visit: &SignedIn,
    credit: &CreditSummary,
    has_calls: bool,
) -> Result<Option<SetupStep>, DbErr> {
    if has_calls {
        return Ok(None);
    }
    let db = visit.store().api_reader();
    let agent = agent::Entity::of(visit.tenant()).limit(1).one(db).await?;
    let numbers = phone_number::Entity::of(visit.tenant())
        .filter(phone_number::Column::IsActive.eq(true))
        .order_by_asc(phone_number::Column::Id);
    let number = numbers.clone().limit(1).one(db).await?;
    let ready = numbers
        .filter(phone_number::Column::AgentId.is_not_null())
        .limit(1)
        .one(db)
        .await?;
    Ok(Some(SetupStep::after(SetupProgress {
        agent: agent.is_some(),
        number: number.is_some(),
        minutes: credit.balance > 0,
        ready: ready.map(|number| number.did),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_comes_after_the_other() {
        let number: PhoneNumber = "+62215550100".parse().expect("a number");
        let mut there = SetupProgress::default();
        assert_eq!(SetupStep::after(there.clone()), SetupStep::MakeAgent);
        there.agent = true;
        assert_eq!(SetupStep::after(there.clone()), SetupStep::AskForNumber);
        there.number = true;
        assert_eq!(SetupStep::after(there.clone()), SetupStep::AssignAgent);
        there.ready = Some(number.clone());
        assert_eq!(SetupStep::after(there.clone()), SetupStep::AskForMinutes);
        there.minutes = true;
        assert_eq!(SetupStep::after(there), SetupStep::Call(number));
    }
}
