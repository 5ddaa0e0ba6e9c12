//! The five things that a new tenant has to do, with a tick at those that are done. It is shown until the first call.

use dikala_entities::{OfTenant, PhoneNumber, agent, phone_number};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, DbErr, QueryFilter, QueryOrder, QuerySelect, QueryTrait};

use super::{super::view::SignedIn, credit::CreditSummary};

/// The things that a tenant has already.
#[derive(Clone, Debug, Default)]
pub struct Checklist {
    has_agent: bool,
    has_number: bool,
    has_minutes: bool,
    /// A number with an agent.
    ready: Option<PhoneNumber>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetupStep {
    MakeAgent,
    AskForNumber,
    AssignAgent,
    AskForMinutes,
    Call,
}

impl SetupStep {
    const ALL: [Self; 5] = [
        Self::MakeAgent,
        Self::AskForNumber,
        Self::AssignAgent,
        Self::AskForMinutes,
        Self::Call,
    ];

    /// The message ids of its name, and of what is to be done.
    const fn ids(self) -> (&'static str, &'static str) {
        match self {
            Self::MakeAgent => ("home-has-agent", "home-step-agent"),
            Self::AskForNumber => ("home-has-number", "home-step-number"),
            Self::AssignAgent => ("home-has-assigned", "home-step-assign"),
            Self::AskForMinutes => ("home-has-minutes", "home-step-minutes"),
            Self::Call => ("home-has-call", "home-step-call"),
        }
    }

    /// Path and message id of the link to the step's page; `None` if the step is done outside the dashboard.
    const fn link(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::MakeAgent => Some(("/dashboard/agents/new", "home-make-agent")),
            Self::AssignAgent => Some(("/dashboard/numbers", "home-assign-agent")),
            Self::AskForNumber | Self::AskForMinutes | Self::Call => None,
        }
    }
}

impl Checklist {
    /// Reads the checklist; `None` once there was a call.
    pub async fn read(
        visit: &SignedIn,
        credit: &CreditSummary,
        has_calls: bool,
    ) -> Result<Option<Self>, DbErr> {
        if has_calls {
            return Ok(None);
        }
        let db = visit.store().api_reader();
        // Another agent does not answer.
        let active = agent::Entity::of(visit.tenant()).filter(agent::Column::IsActive.eq(true));
        let agent = active.clone().limit(1).one(db).await?;
        let active = active.select_only().column(agent::Column::Id);
        let numbers = phone_number::Entity::of(visit.tenant())
            .filter(phone_number::Column::IsActive.eq(true))
            .order_by_asc(phone_number::Column::Id);
        let number = numbers.clone().limit(1).one(db).await?;
        let ready = numbers
            .filter(phone_number::Column::AgentId.in_subquery(active.into_query()))
            .limit(1)
            .one(db)
            .await?;
        Ok(Some(Self {
            has_agent: agent.is_some(),
            has_number: number.is_some(),
            has_minutes: credit.balance > 0,
            ready: ready.map(|number| number.did),
        }))
    }

    fn is_done(&self, step: SetupStep) -> bool {
        match step {
            SetupStep::MakeAgent => self.has_agent,
            SetupStep::AskForNumber => self.has_number,
            SetupStep::AssignAgent => self.ready.is_some(),
            SetupStep::AskForMinutes => self.has_minutes,
            SetupStep::Call => false,
        }
    }

    /// The first step that is not done.
    fn next(&self) -> Option<SetupStep> {
        SetupStep::ALL.into_iter().find(|step| !self.is_done(*step))
    }

    pub fn show(&self, visit: &SignedIn) -> Markup {
        html! {
            section aria-labelledby="setup" {
                h2 #setup { (visit.t("home-setup")) }
                ol.checklist {
                    @for step in SetupStep::ALL {
                        @let is_next = self.next() == Some(step);
                        li.done[self.is_done(step)].next[is_next] aria-current=[is_next.then_some("step")] {
                            (self.step(visit, step, is_next))
                        }
                    }
                }
            }
        }
    }

    fn step(&self, visit: &SignedIn, step: SetupStep, is_next: bool) -> Markup {
        let (name, words) = step.ids();
        html! {
            p.name {
                (visit.t(name))
                @if self.is_done(step) { span.unseen { " (" (visit.t("home-is-done")) ")" } }
            }
            @if is_next {
                p { (self.words(visit, step, words)) }
                @if let Some((path, label)) = step.link() {
                    p { a.button href=(path) { (visit.t(label)) } }
                }
            }
        }
    }

    fn words(&self, visit: &SignedIn, step: SetupStep, words: &str) -> Markup {
        match &self.ready {
            Some(number) if step == SetupStep::Call => {
                let number = number.as_str();
                let link = html! { a href={ "tel:" (number) } { (number) } };
                visit.rich(words, &[("number", link)])
            }
            _ => html! { (visit.t(words)) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_comes_after_the_other() {
        let mut there = Checklist::default();
        let mut seen = Vec::new();
        for step in SetupStep::ALL {
            seen.push(there.next());
            match step {
                SetupStep::MakeAgent => there.has_agent = true,
                SetupStep::AskForNumber => there.has_number = true,
                SetupStep::AssignAgent => there.ready = "+62215550100".parse().ok(),
                SetupStep::AskForMinutes => there.has_minutes = true,
                SetupStep::Call => {}
            }
        }
        assert_eq!(seen, SetupStep::ALL.map(Some));
    }
}
