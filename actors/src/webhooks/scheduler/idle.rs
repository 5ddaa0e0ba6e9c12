//! Idle and resting lanes: idle ones are dropped once other nodes may have them, rested ones take a turn.

use dikala_entities::{Millis, WebhookId};

use super::{Lane, Scheduler};

/// A lane is dropped after this idle time, along with its sockets.
const LANE_IDLE_MS: i64 = 60_000;

impl<E> Scheduler<E> {
    /// Drops idle lanes that other nodes may have by now, and gives a turn to lanes whose rest is over.
    pub(super) fn sweep(&mut self, now: Millis) {
        self.lanes
            .retain(|_, lane| lane.may_be_ours() || !lane.is_idle(LANE_IDLE_MS, now));
        for (webhook, lane) in &mut self.lanes {
            if lane.is_idle(LANE_IDLE_MS, now) {
                lane.suspect();
                lane.releasing = true;
                self.to_release.push(*webhook);
            }
        }
        let waiting: Vec<WebhookId> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.waiting() > 0 || lane.left_behind().is_some())
            .map(|(webhook, _)| *webhook)
            .collect();
        for webhook in waiting {
            self.take_turn(webhook);
            self.want(webhook, now);
            let looks_at = self.lanes.get(&webhook).and_then(Lane::looks_at);
            self.due(looks_at.filter(|at| *at > now));
        }
    }

    /// Begins nothing more. Attempts in progress end, and waiting deliveries are left to the table.
    pub(in crate::webhooks) fn stop(&mut self) {
        self.stopping = true;
        self.lanes.values_mut().for_each(Lane::forget);
        self.waiting = 0;
    }

    /// For the stop: removes the lanes without work in progress. Returns this node's, each once.
    pub(in crate::webhooks) fn take_ended(&mut self) -> Vec<WebhookId> {
        let at_rest = self.lanes.extract_if(.., |_, lane| lane.is_at_rest());
        let ours = at_rest.filter(|(_, lane)| lane.may_be_ours());
        ours.map(|(webhook, _)| webhook).collect()
    }

    /// Handles the release of these lanes, successful or not. A lane with new work asks for its webhook again.
    pub(in crate::webhooks) fn released(&mut self, ids: Vec<WebhookId>, now: Millis) {
        for id in ids {
            let Some(lane) = self.lanes.get_mut(&id) else {
                continue;
            };
            lane.releasing = false;
            if lane.is_idle(LANE_IDLE_MS, now) {
                self.lanes.remove(&id);
            } else {
                self.to_load.insert(id);
            }
        }
    }
}
