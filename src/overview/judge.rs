//! Derives the list of problems from a sample: each in words with an action, worst first. Pure.

use std::collections::BTreeMap;

use dikala_entities::TenantId;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    figures::{ACK_MS_MAX, COMMIT_MS_MAX, DUE_MS_MAX, Thousandths},
    ring::SampleWindow,
    sample::OverviewSample,
    trouble::{CheckResults, FailingWebhook},
};

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

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub severity: Severity,
    /// A word for it that stays the same.
    pub code: &'static str,
    /// The problem in one sentence.
    pub summary: String,
    /// The advice on what to do.
    pub action: String,
    /// The affected tenant, if it is one.
    pub tenant_id: Option<TenantId>,
    /// The object of the problem: an id, or the name of an actor or a thread.
    pub target: Option<String>,
}

/// Input of [`judge`].
#[derive(Debug)]
pub struct JudgeInput<'a> {
    pub sample: &'a OverviewSample,
    /// The last seconds; `None` while the first sample is being taken.
    pub window: Option<SampleWindow<'a>>,
    pub troubles: CheckResults,
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
    problems.extend(tenants(&state.troubles));
    // Stable: problems of equal severity keep this order.
    problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
    problems
}

impl Problem {
    fn critical(code: &'static str, summary: String, action: impl Into<String>) -> Self {
        Self {
            severity: Severity::Critical,
            code,
            summary,
            action: action.into(),
            tenant_id: None,
            target: None,
        }
    }

    fn warning(code: &'static str, summary: String, action: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::critical(code, summary, action)
        }
    }

    fn about(mut self, target: impl std::fmt::Display) -> Self {
        self.target = Some(target.to_string());
        self
    }

    const fn of(mut self, tenant: TenantId) -> Self {
        self.tenant_id = Some(tenant);
        self
    }
}

/// A readiness message is a problem; if it contains a colon, the part after it is the action.
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
        Problem::critical("not_ready", summary, action).about(name)
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
    (count > 0).then(|| {
        Problem::critical(
            "ledger_differences",
            format!("The books do not add up in {}.", counted(count, "place")),
            "Run `dikala ledger verify`; sell no credit to the tenants that it names until the cause is known.",
        )
    })
}

fn clocks(sample: &OverviewSample) -> impl Iterator<Item = Problem> {
    let machine = (
        "clock_off",
        "This machine's",
        sample.clock_off_ms,
        "Bills and deadlines are not affected; signatures of webhooks use the machine's clock. Correct it (NTP). If the service's clock is \
         the wrong one, stop all nodes in a quiet moment, then start them.",
    );
    let database = (
        "database_clock_off",
        "The database's",
        sample.database_off_ms,
        "Bills and deadlines are not affected: all nodes keep their common time. Correct the clock of the database's machine (NTP). \
         If the service's clock is the wrong one, stop all nodes in a quiet moment, then start them.",
    );
    let off = [machine, database].into_iter();
    let off = off.filter(|(_, _, off, _)| off.saturating_abs() > CLOCK_OFF_MS_MAX);
    off.map(|(code, whose, off, action)| {
        let (much, way) = (
            duration(off.saturating_abs()),
            if off > 0 { "ahead of" } else { "behind" },
        );
        let summary = format!("{whose} clock is {much} {way} the service's clock.");
        Problem::warning(code, summary, action)
    })
}

fn panics(sample: &OverviewSample) -> impl Iterator<Item = Problem> {
    let panicked = sample.actors.iter().filter_map(|actor| {
        let ago = actor.panicked_ms.filter(|ago| *ago < PANIC_TOLD_MS)?;
        Some((actor.name, ago))
    });
    panicked.map(|(name, ago)| {
        Problem::critical(
            "actor_restarted",
            format!(
                "An actor panicked {} ago and was restarted: {name}.",
                duration(ago)
            ),
            "It was restarted, but it is a bug: find `an actor panicked` in the log and report it.",
        )
        .about(name)
    })
}

fn threads(sample: &OverviewSample) -> impl Iterator<Item = Problem> {
    let late = sample.loops.iter().filter(|(_, late)| *late > LAG_MS_MAX);
    late.map(|(name, late)| {
        Problem::critical(
            "event_loop_blocked",
            format!("The event loop of the thread {name} was blocked for {}.", duration(*late)),
            "See whether the machine lacks processor time. If only one thread is late, report it with the log.",
        )
        .about(name)
    })
}

fn mailboxes(state: &JudgeInput<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for actor in &state.sample.actors {
        let lost = state
            .window
            .map_or(0, |window| window.lost_rate(actor.name));
        let waits = actor.name != PER_CALL && actor.waiting > WAITING_MAX;
        let action = "See on the page of its type which message takes long, and whether its thread or the database is slow.";
        if waits && actor.capacity > 0 && actor.waiting >= actor.capacity {
            let summary = format!(
                "The mailbox of {} is full: {} wait, and senders wait or are refused.",
                actor.name,
                counted(actor.waiting.unsigned_abs(), "message")
            );
            problems.push(Problem::critical("mailbox_full", summary, action).about(actor.name));
        } else if waits {
            let summary = format!(
                "{} wait for {}.",
                counted(actor.waiting.unsigned_abs(), "message"),
                actor.name
            );
            problems.push(Problem::warning("mailbox_backlog", summary, action).about(actor.name));
        }
        if lost > LOST_MAX {
            let summary = format!(
                "{1} messages a second to {0} are lost: senders gave up waiting.",
                actor.name,
                Thousandths(lost)
            );
            problems.push(Problem::warning("messages_lost", summary, action).about(actor.name));
        }
    }
    problems
}

fn times(state: &JudgeInput<'_>) -> Vec<Problem> {
    let Some(window) = state.window else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    let acknowledged = window.distributed(|of| &of.acknowledged).percentile(99);
    if let Some(ms) = above(acknowledged, ACK_MS_MAX) {
        problems.push(Problem::critical(
            "acknowledgements_slow",
            format!("Bridges wait {} for replies about calls.", duration(ms)),
            "Callers hear silence. See whether commits are slow, a thread is blocked, or the processor is busy.",
        ));
    }
    let committed = window.distributed(|of| &of.committed).percentile(99);
    if let Some(ms) = above(committed, COMMIT_MS_MAX) {
        problems.push(Problem::warning(
            "commits_slow",
            format!("Commits of the ledger take {}.", duration(ms)),
            "Check the database's disk, and which other programs write to it.",
        ));
    }
    problems
}

/// A time above the limit, in milliseconds.
fn above(us: Option<u64>, limit_ms: i64) -> Option<i64> {
    let ms = i64::try_from(us? / 1_000).unwrap_or(i64::MAX);
    (ms > limit_ms).then_some(ms)
}

fn requests(state: &JudgeInput<'_>) -> Option<Problem> {
    let window = state.window?;
    let (all, failed) = (
        window.grew(|of| of.requests),
        window.grew(|of| of.failed_requests),
    );
    let share = failed.saturating_mul(100) / all.max(1);
    (all >= REQUESTS_MIN && share >= FAILED_SHARE_MAX).then(|| {
        Problem::critical(
            "requests_fail",
            format!("{share} % of all requests fail."),
            "See under HTTP which routes fail and with which status; 503 usually means that the database is away.",
        )
    })
}

fn bridges(sample: &OverviewSample) -> Option<Problem> {
    let gone = sample.bridge_seen_ms.filter(|_| sample.sockets == 0)?;
    (BRIDGES_GONE_MS..BRIDGES_FORGOTTEN_MS)
        .contains(&gone)
        .then(|| {
            Problem::critical(
                "bridges_gone",
                format!(
                    "No bridge is connected; the last sign of life was {} ago.",
                    duration(gone)
                ),
                "No calls arrive over sockets. Check the bridges and the network to them.",
            )
        })
}

fn room(troubles: &CheckResults) -> Option<Problem> {
    let free = troubles.room?.free_mib;
    let summary = format!("The disk of the database has {free} MiB left.");
    let action =
        "Free space, or move the database to a larger disk. On a full disk no call is accepted.";
    if free < ROOM_NONE_MIB {
        return Some(Problem::critical("disk_low", summary, action));
    }
    (free < ROOM_LITTLE_MIB).then(|| Problem::warning("disk_low", summary, action))
}

fn deliveries(state: &JudgeInput<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    if state.sample.due_ms > DUE_MS_MAX {
        problems.push(Problem::warning(
            "deliveries_late",
            format!(
                "A delivery has been due for {} although its endpoint is not failing.",
                duration(state.sample.due_ms)
            ),
            "See whether attempts are made, and whether their outcomes can be stored.",
        ));
    }
    let faults = state
        .window
        .map_or(0, |window| window.grew(|of| of.own_faults));
    if faults > 0 {
        problems.push(Problem::warning(
            "deliveries_not_made",
            format!(
                "{} of deliveries could not be made by this service.",
                counted(faults.unsigned_abs(), "attempt")
            ),
            "They are repeated. See whether the process has reached its limit of open files (`process_open_fds`).",
        ));
    }
    if state.sample.sealed > 0 {
        problems.push(Problem::warning(
            "secrets_sealed",
            format!(
                "The secret of {} does not open with secrets.key.",
                counted(state.sample.sealed.unsigned_abs(), "webhook")
            ),
            "Start the service with the key that sealed them; `dikala check` names these webhooks.",
        ));
    }
    problems
}

fn tenants(troubles: &CheckResults) -> Vec<Problem> {
    let mut problems = Vec::new();
    for hanging in &troubles.hanging {
        let failing = troubles
            .missed
            .iter()
            .any(|missed| missed.webhook == hanging.webhook);
        if !failing {
            let name = named(&troubles.names, hanging.tenant);
            let problem = Problem::warning(
                "endpoint_hangs",
                format!(
                    "An endpoint of {name} does not answer: webhook {}.",
                    hanging.webhook
                ),
                "Attempts are repeated, and other webhooks are not affected. Tell the tenant if it lasts.",
            );
            problems.push(problem.about(hanging.webhook).of(hanging.tenant));
        }
    }
    problems.extend(troubles.missed.iter().map(|of| missed(troubles, of)));
    if troubles.more_missed {
        problems.push(Problem::warning(
            "more_webhooks",
            "More webhooks than those listed fail or were disabled.".to_owned(),
            "Check this machine's network (DNS, firewall, certificates). Webhooks lists all of them.",
        ));
    }
    for (tenant, refused) in &troubles.flooding {
        let name = named(&troubles.names, *tenant);
        let problem = Problem::warning(
            "tenant_floods",
            format!(
                "{name} exceeds its rate limit: {refused} requests were refused within a minute."
            ),
            "The limit works and others are served. Tell the tenant, or raise its rateLimit.",
        );
        problems.push(problem.about(tenant).of(*tenant));
    }
    problems
}

fn missed(troubles: &CheckResults, missed: &FailingWebhook) -> Problem {
    let name = named(&troubles.names, missed.tenant);
    let id = missed.webhook;
    let problem = match missed.failing_since {
        Some(since) => Problem::warning(
            "webhook_failing",
            format!(
                "The webhook {id} of {name} has been failing since {}.",
                moment(since)
            ),
            "The tenant misses events: see the last answer under Webhooks, and tell the tenant. Recover resends failed deliveries.",
        ),
        None => Problem::warning(
            "webhook_disabled",
            format!("The webhook {id} of {name} was disabled because it kept failing."),
            "The tenant gets no events: tell the tenant to repair the server and enable the webhook. Then recover resends failed deliveries.",
        ),
    };
    problem.about(id).of(missed.tenant)
}

fn named(names: &BTreeMap<TenantId, String>, tenant: TenantId) -> String {
    names
        .get(&tenant)
        .map_or_else(|| tenant.to_string(), Clone::clone)
}

fn moment(at: dikala_entities::Millis) -> String {
    crate::pages::format::utc(at)
}

/// A count with its noun: `1 message`, `3 messages`.
fn counted(count: impl TryInto<u64>, thing: &str) -> String {
    let count: u64 = count.try_into().unwrap_or(u64::MAX);
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// A duration: `250 ms`, `4 s`, `12 min`, `3 h`.
fn duration(ms: i64) -> String {
    match ms {
        ..1_000 => format!("{} ms", ms.max(0)),
        1_000..120_000 => format!("{} s", ms / 1_000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

#[cfg(test)]
mod tests;
