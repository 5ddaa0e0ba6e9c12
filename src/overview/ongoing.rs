//! Ongoing problems: since when each lasts, and until when it is snoozed. Pure.

use std::collections::BTreeMap;

use dikala_entities::{Millis, snoozed_problem};

use super::judge::{Problem, Severity};
use crate::operations::problems::SNOOZED_MS;

/// Time after which a problem that was not seen any more is forgotten, in milliseconds. A problem that comes and goes
/// more often is one.
const FORGOTTEN_MS: i64 = 2 * 60 * 1_000;
/// Maximum number of remembered problems.
const REMEMBERED_MAX: usize = 1_000;
/// Codes of problems that all nodes have in common although no tenant is concerned.
const COMMON: [&str; 3] = ["ledger_differences", "database_clock_off", "more_webhooks"];

/// A problem as the overview lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OngoingProblem {
    pub problem: Problem,
    /// Identifies the problem on all nodes.
    pub key: String,
    /// The time since when it lasts; if only the effect is known, the time at which this node first noticed it.
    pub since: Millis,
    pub snoozed_until: Option<Millis>,
}

/// The problems that were seen lately.
#[derive(Debug, Default)]
pub struct ProblemHistory(BTreeMap<String, SeenProblem>);

#[derive(Clone, Copy, Debug)]
struct SeenProblem {
    first: Millis,
    last: Millis,
}

impl ProblemHistory {
    /// Notes the current problems of the node with this name. Keeps their order.
    pub fn ongoing(
        &mut self,
        problems: Vec<Problem>,
        snoozes: &[snoozed_problem::Model],
        node: &str,
        now: Millis,
    ) -> Vec<OngoingProblem> {
        self.0
            .retain(|_, seen| (0..FORGOTTEN_MS).contains(&now.since(seen.last)));
        let each = problems.into_iter().map(|problem| {
            let key = key(&problem, node);
            let noticed = self.noticed(&key, now);
            let since = problem.since.unwrap_or(noticed).min(now);
            OngoingProblem {
                since,
                snoozed_until: snoozed_until(&problem, &key, since, snoozes, now),
                key,
                problem,
            }
        });
        each.collect()
    }

    /// The time at which the problem was first seen.
    fn noticed(&mut self, key: &str, now: Millis) -> Millis {
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(key) {
            return now;
        }
        let seen = self.0.entry(key.to_owned()).or_insert(SeenProblem {
            first: now,
            last: now,
        });
        seen.last = now;
        seen.first
    }
}

/// A problem of one node is another one than the same of another node.
fn key(problem: &Problem, node: &str) -> String {
    let target = problem.target.as_deref().unwrap_or_default();
    let is_common = problem.tenant_id.is_some() || COMMON.contains(&problem.code);
    let node = if is_common { "" } else { node };
    let parts = [problem.code, target, node];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// The end of a problem's snooze. It hides neither a worse problem, nor a critical one that began again after it was snoozed.
fn snoozed_until(
    problem: &Problem,
    key: &str,
    since: Millis,
    snoozes: &[snoozed_problem::Model],
    now: Millis,
) -> Option<Millis> {
    let snooze = snoozes.iter().find(|snooze| snooze.problem == key)?;
    let is_critical = problem.severity == Severity::Critical;
    let is_worse = is_critical && !snooze.is_critical;
    let is_again =
        is_critical && problem.since.is_some() && since > snooze.ends_at.plus_ms(-SNOOZED_MS);
    (snooze.ends_at > now && !is_worse && !is_again).then_some(snooze.ends_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Millis {
        Millis::from_i64(1_800_000_000_000).plus_seconds(seconds)
    }

    fn disk(severity: Severity) -> Problem {
        Problem::new(severity, "disk_low")
    }

    fn snooze(is_critical: bool, ends_at: Millis) -> snoozed_problem::Model {
        snoozed_problem::Model {
            problem: "disk_low main".to_owned(),
            is_critical,
            ends_at,
        }
    }

    #[test]
    fn it_lasts_since_it_was_first_seen_unless_the_problem_knows_better() {
        let mut history = ProblemHistory::default();
        let mut since = |seconds, problems: Vec<Problem>| -> Vec<i64> {
            let listed = history.ongoing(problems, &[], "main", at(seconds));
            listed
                .iter()
                .map(|it| it.since.since(at(0)) / 1_000)
                .collect()
        };
        let warning = || disk(Severity::Warning);
        assert_eq!(since(10, vec![warning()]), [10]);
        // A change of severity, and a short absence, are the same problem.
        assert_eq!(since(60, vec![disk(Severity::Critical)]), [10]);
        assert_eq!(since(100, Vec::new()), [0_i64; 0]);
        assert_eq!(since(170, vec![warning()]), [10]);
        // Long gone, or the clock went back: it begins anew.
        assert_eq!(since(300, vec![warning()]), [300]);
        assert_eq!(since(200, vec![warning()]), [200]);
        let mut known = warning();
        known.since = Some(at(-3_600));
        assert_eq!(since(210, vec![known]), [-3_600]);
    }

    #[test]
    fn a_snooze_hides_neither_a_worse_problem_nor_another_one() {
        let listed = |problem: Problem, node: &str, snooze: snoozed_problem::Model| {
            let mut history = ProblemHistory::default();
            let listed = history.ongoing(vec![problem], &[snooze], node, at(0));
            listed[0].snoozed_until
        };
        let (warning, critical) = (Severity::Warning, Severity::Critical);
        let until = Some(at(9));
        for (severity, was_critical, node, ends_at, expected) in [
            (warning, false, "main", at(9), until),
            (critical, true, "main", at(9), until),
            // It got better.
            (warning, true, "main", at(9), until),
            (critical, false, "main", at(9), None),
            (warning, false, "other", at(9), None),
            (warning, false, "main", at(0), None),
        ] {
            let told = listed(disk(severity), node, snooze(was_critical, ends_at));
            assert_eq!(
                told, expected,
                "{severity:?} {was_critical} {node} {ends_at}"
            );
        }
    }

    #[test]
    fn a_snooze_does_not_hide_what_happened_after_it() {
        let snoozed_at = at(0);
        let ends_at = snoozed_at.plus_ms(SNOOZED_MS);
        for (since, expected) in [(at(-1), Some(ends_at)), (at(1), None)] {
            let mut again = disk(Severity::Critical);
            again.since = Some(since);
            let mut history = ProblemHistory::default();
            let listed = history.ongoing(vec![again], &[snooze(true, ends_at)], "main", at(10));
            assert_eq!(listed[0].snoozed_until, expected);
        }
    }

    #[test]
    fn a_problem_of_a_tenant_is_the_same_on_all_nodes() {
        let tenant = "ten_01k9zv3m8rj2q4w6y8a0c2e4g6".parse().expect("an id");
        let mut failing = Problem::new(Severity::Warning, "webhook_failing");
        failing.tenant_id = Some(tenant);
        failing.target = Some("wh_1".to_owned());
        assert_eq!(key(&failing, "main"), "webhook_failing wh_1");
        let mut blocked = Problem::new(Severity::Critical, "event_loop_blocked");
        blocked.target = Some("core-0".to_owned());
        assert_eq!(key(&blocked, "main"), "event_loop_blocked core-0 main");
        let books = Problem::new(Severity::Critical, "ledger_differences");
        assert_eq!(key(&books, "main"), "ledger_differences");
    }
}
