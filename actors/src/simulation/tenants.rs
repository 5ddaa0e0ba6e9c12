//! The tenants: their requests over the API to end calls, and their top-ups.

use super::{
    process::{MessageSource, NodeAnswer, NodeMessage},
    world::SimulatedWorld,
};

impl SimulatedWorld<'_> {
    /// The tenant asks for the end of a call until that is acknowledged.
    pub(super) fn wish(&mut self, number: usize) {
        let phone = &self.phones[number];
        let (Some(call), None, None) = (phone.call, phone.ended_at, phone.wished_at) else {
            return;
        };
        self.ask_api(number, 0, NodeMessage::End(call));
        self.after(2_000, move |world| world.wish(number));
    }

    pub(super) fn top_up(&mut self, number: i64, minutes: i64) {
        let reference = format!("bill {number}");
        if !self.top_ups.contains_key(&reference) {
            self.top_ups.insert(reference.clone(), 0);
        }
        if self.top_ups[&reference] == 0 {
            let place = u64::try_from(number).unwrap_or(0) + 1;
            self.ask_api(usize::MAX, place, NodeMessage::TopUp(minutes, reference));
            self.after(2_000, move |world| world.top_up(number, minutes));
        }
    }

    fn ask_api(&mut self, phone: usize, number: u64, message: NodeMessage) {
        let from = MessageSource {
            bridge: None,
            phone,
            number,
        };
        if let Some(machine) = self.any_machine() {
            let late = self.chance.between(1, 40);
            self.arrive(machine, None, from, message, late);
        }
    }

    pub(super) fn hear_api(&mut self, from: MessageSource, answer: &NodeAnswer) {
        let now = self.now();
        match answer {
            NodeAnswer::Said(_) => {
                if let Some(phone) = self.phones.get_mut(from.phone) {
                    phone.wished_at.get_or_insert(now);
                }
            }
            NodeAnswer::Booked => {
                let reference = format!("bill {}", from.number.saturating_sub(1));
                self.top_ups.insert(reference, 1);
            }
            NodeAnswer::Over(_) | NodeAnswer::Not(_) => {}
        }
    }
}
