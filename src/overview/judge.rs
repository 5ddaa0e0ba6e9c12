//! Derives the list of problems from a sample, worst first. Pure.

mod amount;

use std::collections::BTreeMap;

use dikala_entities::{Millis, TenantId};
use fluent_bundle::FluentValue;
use serde::Serialize;
use utoipa::ToSchema;

use self::amount::amount_of;
use super::{
    figures::{ACK_MS_MAX, COMMIT_MS_MAX, DUE_MS_MAX, Thousandths},
    ring::SampleWindow,
    sample::OverviewSample,
    trouble::{CheckResults, HangingWebhook, TroubledWebhook, WebhookTrouble},
};
use crate::pages::{i18n::ungrouped, lang::Lang};

/// Time for which a panic is shown, in milliseconds.
const PANIC_TOLD_MS: i64 = 10 * 60 * 1_000;
/// Maximum difference of the machine's or the database's clock from the service's, in milliseconds.
const CLOCK_OFF_MS_MAX: i64 = 5_000;
/// Maximum lag of an event loop, in milliseconds.
const LAG_MS_MAX: i64 = 500;
/// Maximum number of messages in an actor's mailbox.
const WAITING_MAX: i64 = 100;
/// Maximum rate of lost messages, in thousandths per second.
const LOST_MAX: i64 = 1_000;
/// Minimum number of requests in the window for a meaningful share of failures.
const REQUESTS_MIN: i64 = 20;
/// Maximum share of failed requests, in hundredths.
const FAILED_SHARE_MAX: i64 = 5;
/// Missing bridges are shown after the first duration, and no longer expected after the second, in milliseconds.
const BRIDGES_GONE_MS: i64 = 15_000;
const BRIDGES_FORGOTTEN_MS: i64 = 60 * 60 * 1_000;
/// Free disk space below which a warning, and a critical problem, is shown, in MiB.
const ROOM_LITTLE_MIB: u64 = 1_024;
const ROOM_NONE_MIB: u64 = 256;
/// Call actors are excluded: there are many, each with its own small mailbox.
const PER_CALL: &str = "call";

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Somebody should look today.
    Warning,
    /// Callers or money are concerned now.
    Critical,
}

/// Something that is wrong. Its texts are messages of `src/pages/locales/console/`: `console-problem-{code}`, and the same with
/// `-action` for the advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// A word for it that stays the same.
    pub code: &'static str,
    /// The affected tenant, if it is one.
    pub tenant_id: Option<TenantId>,
    /// The object of the problem: an id, or the name of an actor or a thread. The texts may use it too.
    pub target: Option<String>,
    /// The time since when it lasts, if that is known.
    pub since: Option<Millis>,
    /// Variables of the texts.
    values: Vec<(&'static str, ProblemValue)>,
    /// The message that says how much is concerned, with its variables.
    amount: Option<(&'static str, Vec<(&'static str, ProblemValue)>)>,
}

/// A value that a problem's text shows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProblemValue {
    Text(String),
    /// A number that the text may put in the plural.
    Count(i64),
    /// A duration in milliseconds.
    Duration(i64),
}

/// Input of [`judge`].
#[derive(Debug)]
pub struct JudgeInput<'a> {
    pub sample: &'a OverviewSample,
    /// The last seconds; `None` while the first sample is being taken.
    pub window: Option<SampleWindow<'a>>,
    pub troubles: CheckResults,
    pub slow_since: SlowSince,
}

/// The times since when figures exceed their limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowSince {
    pub acknowledgements: Option<Millis>,
    pub commits: Option<Millis>,
}

/// All problems, worst first.
pub fn judge(state: &JudgeInput<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    problems.extend(unready(&state.troubles));
    problems.extend(books(state.sample));
    problems.extend(clocks(state.sample));
    problems.extend(panics(state.sample));
    problems.extend(threads(state.sample));
    problems.extend(mailboxes(state));
    problems.extend(times(state));
    problems.extend(requests(state));
    problems.extend(bridges(state.sample));
    problems.extend(room(&state.troubles));
    problems.extend(deliveries(state));
    problems.extend(money(state));
    problems.extend(tenants(&state.troubles));
    // Stable: problems of equal severity keep this order.
    problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
    problems
}

impl Problem {
    pub(super) const fn new(severity: Severity, code: &'static str) -> Self {
        Self {
            severity,
            code,
            tenant_id: None,
            target: None,
            since: None,
            values: Vec::new(),
            amount: None,
        }
    }

    const fn critical(code: &'static str) -> Self {
        Self::new(Severity::Critical, code)
    }

    const fn warning(code: &'static str) -> Self {
        Self::new(Severity::Warning, code)
    }

    fn about(mut self, target: impl std::fmt::Display) -> Self {
        self.target = Some(target.to_string());
        self
    }

    /// Sets the affected tenant, and the variable `tenant` to its name.
    fn of(mut self, tenant: TenantId, names: &BTreeMap<TenantId, String>) -> Self {
        self.tenant_id = Some(tenant);
        let name = names.get(&tenant).cloned();
        self.text("tenant", name.unwrap_or_else(|| tenant.to_string()))
    }

    fn text(self, name: &'static str, text: impl Into<String>) -> Self {
        self.with(name, ProblemValue::Text(text.into()))
    }

    fn count(self, name: &'static str, count: impl TryInto<i64>) -> Self {
        let count = count.try_into().unwrap_or(i64::MAX);
        self.with(name, ProblemValue::Count(count))
    }

    fn lasting(self, ms: i64) -> Self {
        self.with("time", ProblemValue::Duration(ms))
    }

    const fn since(self, since: Millis) -> Self {
        self.since_known(Some(since))
    }

    const fn since_known(mut self, since: Option<Millis>) -> Self {
        self.since = since;
        self
    }

    fn amounting(
        mut self,
        amount: Option<(&'static str, Vec<(&'static str, ProblemValue)>)>,
    ) -> Self {
        self.amount = amount;
        self
    }

    fn with(mut self, name: &'static str, value: ProblemValue) -> Self {
        self.values.push((name, value));
        self
    }

    /// The name of the affected tenant.
    pub fn tenant(&self) -> Option<&str> {
        let mut values = self.values.iter();
        values.find_map(|(name, value)| match value {
            ProblemValue::Text(text) if *name == "tenant" => Some(text.as_str()),
            _ => None,
        })
    }

    /// The problem in one sentence.
    pub fn summary(&self, lang: Lang) -> String {
        self.written(lang, "", &[])
    }

    /// As [`Self::summary`], with other values for some variables, such as marks for elements of a page.
    pub fn summary_with(&self, lang: Lang, values: &[(&'static str, String)]) -> String {
        self.written(lang, "", values)
    }

    /// The advice on what to do.
    pub fn action(&self, lang: Lang) -> String {
        self.written(lang, "-action", &[])
    }

    /// How much is concerned.
    pub fn amount(&self, lang: Lang) -> Option<String> {
        let (message, values) = self.amount.as_ref()?;
        Some(lang.tn(message, &written(values, lang)))
    }

    fn written(&self, lang: Lang, end: &str, others: &[(&'static str, String)]) -> String {
        let target = self.target.as_deref().unwrap_or_default();
        let other = |name: &str| others.iter().find(|(other, _)| *other == name);
        let values = written(&self.values, lang).into_iter();
        let values = values
            .chain([("target", target.into())])
            .map(|(name, value)| match other(name) {
                Some((_, other)) => (name, other.as_str().into()),
                None => (name, value),
            });
        let values: Vec<_> = values.collect();
        lang.tn(&format!("console-problem-{}{end}", self.code), &values)
    }
}

fn written<'a>(
    values: &'a [(&'static str, ProblemValue)],
    lang: Lang,
) -> Vec<(&'static str, FluentValue<'a>)> {
    let values = values.iter();
    values
        .map(|(name, value)| (*name, value.written(lang)))
        .collect()
}

impl ProblemValue {
    fn written(&self, lang: Lang) -> FluentValue<'_> {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Count(count) => ungrouped(*count),
            Self::Duration(ms @ ..1_000) => format!("{} ms", ms.max(&0)).into(),
            Self::Duration(ms) => lang.duration(*ms).into(),
        }
    }
}

/// A readiness message is a problem; if it contains a colon, the part after it is the action. The English texts show both. Other
/// languages have a text for each check.
fn unready(troubles: &CheckResults) -> impl Iterator<Item = Problem> {
    troubles.unready.iter().map(|(name, words)| {
        let (summary, action) = match words.split_once(": ") {
            Some((summary, action)) => (format!("{summary}."), begun_with_a_capital(action)),
            None => (
                (*words).to_owned(),
                "Save the log, then restart this node; nothing that was acknowledged is lost."
                    .to_owned(),
            ),
        };
        let problem = Problem::critical("not_ready").about(name);
        problem.text("summary", summary).text("action", action)
    })
}

fn begun_with_a_capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn books(sample: &OverviewSample) -> Option<Problem> {
    let count = sample.differences;
    (count > 0).then(|| Problem::critical("ledger_differences").count("count", count))
}

fn clocks(sample: &OverviewSample) -> impl Iterator<Item = Problem> {
    let clocks = [
        ("clock_off", sample.clock_off_ms),
        ("database_clock_off", sample.database_off_ms),
    ];
    let off = clocks.into_iter();
    let off = off.filter(|(_, off)| off.saturating_abs() > CLOCK_OFF_MS_MAX);
    off.map(|(code, off)| {
        let way = if off > 0 { "ahead" } else { "behind" };
        let problem = Problem::warning(code).text("way", way);
        problem.lasting(off.saturating_abs())
    })
}

fn panics(sample: &OverviewSample) -> impl Iterator<Item = Problem> {
    let panicked = sample.actors.iter().filter_map(|actor| {
        let ago = actor.panicked_ms.filter(|ago| *ago < PANIC_TOLD_MS)?;
        Some((actor.name, ago))
    });
    panicked.map(|(name, ago)| {
        Problem::critical("actor_restarted")
            .about(name)
            .since(sample.at.plus_ms(-ago))
            .lasting(ago)
    })
}

fn threads(sample: &OverviewSample) -> impl Iterator<Item = Problem> {
    let late = sample.loops.iter().filter(|(_, late)| *late > LAG_MS_MAX);
    late.map(|(name, late)| {
        Problem::critical("event_loop_blocked")
            .about(name)
            .lasting(*late)
    })
}

fn mailboxes(state: &JudgeInput<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for actor in &state.sample.actors {
        let lost = state
            .window
            .map_or(0, |window| window.lost_rate(actor.name));
        if actor.name != PER_CALL && actor.waiting > WAITING_MAX {
            let is_full = actor.capacity > 0 && actor.waiting >= actor.capacity;
            let problem = match is_full {
                true => Problem::critical("mailbox_full"),
                false => Problem::warning("mailbox_backlog"),
            };
            problems.push(problem.about(actor.name).count("count", actor.waiting));
        }
        if lost > LOST_MAX {
            let problem = Problem::warning("messages_lost").about(actor.name);
            problems.push(problem.text("rate", Thousandths(lost).to_string()));
        }
    }
    problems
}

fn times(state: &JudgeInput<'_>) -> Vec<Problem> {
    let Some(window) = state.window else {
        return Vec::new();
    };
    let window = window.counters();
    let acknowledged = window.percentile(99, |of| &of.acknowledged);
    let acknowledged = above(acknowledged, ACK_MS_MAX).map(|ms| {
        let problem = Problem::critical("acknowledgements_slow").lasting(ms);
        problem.since_known(state.slow_since.acknowledgements)
    });
    let committed = window.percentile(99, |of| &of.committed);
    let committed = above(committed, COMMIT_MS_MAX).map(|ms| {
        let problem = Problem::warning("commits_slow").lasting(ms);
        problem.since_known(state.slow_since.commits)
    });
    acknowledged.into_iter().chain(committed).collect()
}

/// A time above the limit, in milliseconds.
fn above(us: Option<i64>, limit_ms: i64) -> Option<i64> {
    let ms = us? / 1_000;
    (ms > limit_ms).then_some(ms)
}

fn requests(state: &JudgeInput<'_>) -> Option<Problem> {
    let window = state.window?;
    let (all, failed) = (
        window.grew(|of| of.requests),
        window.grew(|of| of.failed_requests),
    );
    let share = failed.saturating_mul(100) / all.max(1);
    (all >= REQUESTS_MIN && share >= FAILED_SHARE_MAX)
        .then(|| Problem::critical("requests_fail").count("share", share))
}

fn bridges(sample: &OverviewSample) -> Option<Problem> {
    let gone = sample.bridge_seen_ms.filter(|_| sample.sockets == 0)?;
    (BRIDGES_GONE_MS..BRIDGES_FORGOTTEN_MS)
        .contains(&gone)
        .then(|| Problem::critical("bridges_gone").lasting(gone))
        .map(|problem| problem.since(sample.at.plus_ms(-gone)))
}

fn room(troubles: &CheckResults) -> Option<Problem> {
    let free = troubles.room?.free_mib;
    let severity = match free {
        ..ROOM_NONE_MIB => Severity::Critical,
        ROOM_NONE_MIB..ROOM_LITTLE_MIB => Severity::Warning,
        _ => return None,
    };
    Some(Problem::new(severity, "disk_low").count("free", free))
}

fn deliveries(state: &JudgeInput<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (due_ms, sealed) = (state.sample.counters.due_ms, state.sample.sealed);
    if due_ms > DUE_MS_MAX {
        let since = state.sample.at.plus_ms(-due_ms);
        problems.push(
            Problem::warning("deliveries_late")
                .since(since)
                .lasting(due_ms),
        );
    }
    let faults = state
        .window
        .map_or(0, |window| window.grew(|of| of.own_faults));
    if faults > 0 {
        problems.push(Problem::warning("deliveries_not_made").count("count", faults));
    }
    if sealed > 0 {
        problems.push(Problem::warning("secrets_sealed").count("count", sealed));
    }
    problems
}

/// Tenants that lose calls for lack of minutes, or will soon.
fn money(state: &JudgeInput<'_>) -> Vec<Problem> {
    let CheckResults {
        refused,
        short,
        names,
        ..
    } = &state.troubles;
    let refused = refused.iter().map(|of| {
        let problem = Problem::warning("credit_refused").about(of.tenant);
        let problem = problem.of(of.tenant, names);
        let ago = ProblemValue::Duration(state.sample.at.since(of.last).max(0));
        let amount = ("console-amount-refused", vec![("time", ago)]);
        problem.count("count", of.refused).amounting(Some(amount))
    });
    let short = short.iter().map(|of| {
        let code = if of.hours == 0 {
            "credit_ends"
        } else {
            "credit_short"
        };
        let problem = Problem::warning(code).about(of.tenant);
        let minutes = ("count", ProblemValue::Count(of.minutes));
        let amount = ("console-amount-minutes", vec![minutes]);
        let problem = problem.of(of.tenant, names).amounting(Some(amount));
        problem.lasting(of.hours.saturating_mul(60 * 60 * 1_000))
    });
    refused.chain(short).collect()
}

fn tenants(troubles: &CheckResults) -> Vec<Problem> {
    let names = &troubles.names;
    let is_known = |hanging: &&HangingWebhook| {
        let mut webhooks = troubles.webhooks.iter();
        webhooks.any(|troubled| troubled.webhook == hanging.webhook)
    };
    let backlog = |webhook| amount_of(troubles.backlogs.get(webhook));
    let hanging = troubles.hanging.iter().filter(|of| !is_known(of));
    let hanging = hanging.map(|hanging| {
        let problem = Problem::warning("endpoint_hangs").about(hanging.webhook);
        let problem = problem.of(hanging.tenant, names);
        problem.amounting(backlog(&hanging.webhook))
    });
    let webhooks = troubles.webhooks.iter().map(|of| {
        let problem = troubled(of, names);
        problem.amounting(backlog(&of.webhook))
    });
    let more = troubles
        .more_webhooks
        .then(|| Problem::warning("more_webhooks"));
    let flooding = troubles.flooding.iter().map(|(tenant, refused)| {
        let problem = Problem::warning("tenant_floods").about(tenant);
        problem.of(*tenant, names).count("count", *refused)
    });
    let of_webhooks = hanging.chain(webhooks).chain(more);
    of_webhooks.chain(flooding).collect()
}

fn troubled(of: &TroubledWebhook, names: &BTreeMap<TenantId, String>) -> Problem {
    let problem = Problem::warning(match of.trouble {
        WebhookTrouble::Failing => "webhook_failing",
        WebhookTrouble::Disabled => "webhook_disabled",
        WebhookTrouble::Paused => "webhook_paused",
    });
    problem
        .about(of.webhook)
        .of(of.tenant, names)
        .since(of.since)
}

#[cfg(test)]
mod tests;
