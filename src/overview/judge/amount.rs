//! The amount of what waits for a webhook, in words.

use super::ProblemValue;
use crate::{operations::webhooks::backlog::DUE_MAX, overview::trouble::WebhookBacklog};

/// How many deliveries wait, and what the endpoint answered last.
pub(super) fn amount_of(
    backlog: Option<&WebhookBacklog>,
) -> Option<(&'static str, Vec<(&'static str, ProblemValue)>)> {
    let backlog = backlog?;
    let count = ("count", ProblemValue::Count(backlog.due));
    let more = ProblemValue::Text(if backlog.due >= DUE_MAX { "yes" } else { "no" }.to_owned());
    Some(match &backlog.last_answer {
        Some(answer) => {
            let answer = ("answer", ProblemValue::Text(answer.clone()));
            (
                "console-amount-backlog",
                vec![count, ("more", more), answer],
            )
        }
        None => (
            "console-amount-backlog-unanswered",
            vec![count, ("more", more)],
        ),
    })
}
