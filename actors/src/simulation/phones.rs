//! The outside: bridges with their connections, and their calls. Messages are repeated until answered. True events
//! and their times are kept for the checks.

use std::collections::BTreeMap;

use dikala_entities::{CallId, HangupInitiator, HangupReason};
use dikala_protocol::{Command, CommandKind};

use super::{
    process::{MessageSource, NodeAnswer, NodeMessage},
    setting::InjectedFault,
    world::{ROUGH_MS, SimulatedWorld},
};
use crate::{
    calls::{CallError, CallReply},
    runtime::simulated::clock::BEGAN,
};

/// Time after which a bridge repeats a message without an answer.
const SAID_AGAIN_MS: i64 = 3_000;
const HEARTBEAT_MS: i64 = 10_000;

/// A bridge's true state.
#[derive(Debug, Default)]
pub(super) struct ModelBridge {
    /// The machine and process to which it is connected.
    at: Option<(usize, u64)>,
    /// It can reach no node before this time.
    away_until: i64,
    next: u64,
    /// Messages without an answer.
    waiting: BTreeMap<u64, NodeMessage>,
}

/// A call's true state.
#[derive(Debug, Default)]
pub(super) struct SimulatedPhone {
    pub(super) bridge: usize,
    pub(super) name: String,
    pub(super) call: Option<CallId>,
    pub(super) answered_at: Option<i64>,
    pub(super) ended_at: Option<i64>,
    /// The bridge died with the call, or was told that it is over: no report of its end will come.
    pub(super) is_silent: bool,
    pub(super) is_refused: bool,
    /// The `call.answered` message was acknowledged; `end_is_written` is the same for the hang-up.
    pub(super) answer_is_written: bool,
    pub(super) end_is_written: bool,
    /// When the acknowledgement of `call.transferred` was sent.
    pub(super) join_written_at: Option<i64>,
    /// The answer was acknowledged before the hang-up was sent.
    pub(super) is_in_order: bool,
    /// The time at which the request to end it was acknowledged.
    pub(super) wished_at: Option<i64>,
    talk_ms: i64,
    ring_ms: i64,
    picks_up: bool,
    /// From the acknowledged answer until a person is joined.
    joins_after_ms: Option<i64>,
    obeys: bool,
}

impl SimulatedPhone {
    /// True if the bridge has nothing more to report.
    pub(super) fn is_done(&self) -> bool {
        self.is_refused || (self.ended_at.is_some() && (self.end_is_written || self.is_silent))
    }
}

impl SimulatedWorld<'_> {
    /// Schedules the calls, the tenants' requests to end them, and top-ups.
    pub(super) fn begin_to_call(&mut self) {
        for bridge in 0..self.setting.bridges {
            self.bridges.push(ModelBridge::default());
            self.after(500, move |world| world.connect(bridge));
            self.after(HEARTBEAT_MS, move |world| world.beat(bridge));
        }
        for number in 0..self.setting.calls {
            let bridge = usize::try_from(self.chance.below(2)).unwrap_or(0) % self.setting.bridges;
            let phone = SimulatedPhone {
                bridge,
                name: format!("phone {number}"),
                talk_ms: match self.chance.below(4) {
                    0 => self.chance.between(500, 61_000),
                    3 => 3_600_000,
                    _ => self.chance.between(1_000, 230_000),
                },
                ring_ms: self
                    .chance
                    .between(200, 60_000)
                    .min(self.chance.between(200, 60_000)),
                picks_up: self.chance.happens(880),
                obeys: self.chance.happens(800),
                joins_after_ms: match self.chance.happens(200) {
                    true => Some(self.chance.between(0, 100_000)),
                    false => None,
                },
                ..SimulatedPhone::default()
            };
            self.phones.push(phone);
            let at = self.chance.between(2_000, ROUGH_MS * 3 / 4);
            self.after(at, move |world| world.say(number, NodeMessage::Incoming));
            if self.chance.happens(250) {
                let at = at + self.chance.between(1_000, 60_000);
                self.after(at, move |world| world.wish(number));
            }
        }
        for number in 0..self.chance.below(3) {
            let at = self.chance.between(10_000, ROUGH_MS);
            let minutes = self.chance.between(1, 6);
            self.after(at, move |world| world.top_up(number, minutes));
        }
        for (kind, most) in [(InjectedFault::Moves, 5), (InjectedFault::BridgeDeaths, 2)] {
            let often = if self.setting.has(kind) {
                self.chance.between(1, most)
            } else {
                0
            };
            for _ in 0..often {
                let at = self.chance.between(5_000, ROUGH_MS - 1_000);
                let bridge =
                    usize::try_from(self.chance.below(2)).unwrap_or(0) % self.setting.bridges;
                self.after(at, move |world| {
                    world.lose(bridge, kind == InjectedFault::BridgeDeaths)
                });
            }
        }
    }

    /// Chooses a node, as a load balancer does.
    pub(super) fn any_machine(&mut self) -> Option<usize> {
        let takes = |machine: &usize| {
            let machine = &self.machines[*machine];
            let is_up = machine.paused_until <= self.now();
            is_up
                && machine
                    .process
                    .as_ref()
                    .is_some_and(|process| process.takes())
        };
        let takes: Vec<usize> = (0..self.machines.len()).filter(takes).collect();
        (!takes.is_empty()).then(|| self.chance.pick(&takes))
    }

    fn connect(&mut self, bridge: usize) {
        if self.bridges[bridge].at.is_some() {
            return;
        }
        let is_away = self.bridges[bridge].away_until > self.now();
        let machine = if is_away { None } else { self.any_machine() };
        let id = self.base.bridges[bridge];
        let Some(machine) = machine else {
            return self.after(1_000, move |world| world.connect(bridge));
        };
        if let Some(process) = &mut self.machines[machine].process {
            let socket = process.bridges.connected(id);
            process.sockets.push((bridge, socket));
            let number = process.number;
            self.bridges[bridge].at = Some((machine, number));
            self.tell(|| format!("bridge {bridge} is at process {number}"));
            self.run(machine);
        }
    }

    /// The bridge notices that its socket to that process is closed.
    pub(super) fn disconnected(&mut self, bridge: usize, number: u64) {
        if self.bridges[bridge].at.is_some_and(|(_, at)| at == number) {
            self.bridges[bridge].at = None;
            let soon = self.chance.between(50, 2_000);
            self.after(soon, move |world| world.connect(bridge));
        }
    }

    /// The bridge loses its connection, and possibly dies. The node may notice much later.
    fn lose(&mut self, bridge: usize, dies: bool) {
        let away_ms = match self.chance.below(3) {
            0 => self.chance.between(50, 5_000),
            1 => self.chance.between(1_000, 20_000),
            _ => self.chance.between(20_000, 80_000),
        };
        self.tell(|| format!("bridge {bridge} is away for {away_ms} ms; dies: {dies}"));
        let now = self.now();
        self.bridges[bridge].away_until = now + away_ms;
        if dies {
            self.bridges[bridge].waiting.clear();
            let held = self
                .phones
                .iter_mut()
                .filter(|phone| phone.bridge == bridge);
            for phone in held.filter(|phone| phone.call.is_some() || phone.answered_at.is_some()) {
                phone.is_silent |= phone.ended_at.is_none() || !phone.end_is_written;
                phone.ended_at.get_or_insert(now);
            }
        }
        let Some((machine, number)) = self.bridges[bridge].at.take() else {
            return;
        };
        self.after(away_ms, move |world| world.connect(bridge));
        let half_open_ms = self.chance.pick(&[0, 100, 5_000, 20_000]);
        self.after(half_open_ms, move |world| {
            if world.runs(machine, number) {
                world.close(machine, bridge);
                world.run(machine);
            }
        });
    }

    /// The node notices that its oldest socket of the bridge is gone.
    fn close(&mut self, machine: usize, bridge: usize) {
        if let Some(process) = &mut self.machines[machine].process
            && let Some(at) = process.sockets.iter().position(|(of, _)| *of == bridge)
        {
            let (_, socket) = process.sockets.remove(at);
            process.bridges.disconnected(&socket);
        }
    }

    fn beat(&mut self, bridge: usize) {
        self.after(HEARTBEAT_MS, move |world| world.beat(bridge));
        let held = self.phones.iter().filter(|phone| phone.bridge == bridge);
        // A call is listed until its hang-up is acknowledged.
        let held = held.filter(|phone| !(phone.is_silent || phone.end_is_written));
        let held = held.filter_map(|phone| phone.call).collect();
        let message = NodeMessage::Heartbeat(held, self.time.shown());
        self.send(bridge, usize::MAX, message);
    }

    /// Sends a message about a call until it is answered.
    pub(super) fn say(&mut self, phone: usize, message: NodeMessage) {
        let bridge = self.phones[phone].bridge;
        let is_moot = match &message {
            NodeMessage::Incoming => self.phones[phone].call.is_some(),
            NodeMessage::Answered(..) => self.phones[phone].answer_is_written,
            NodeMessage::Joined(..) => {
                let phone = &self.phones[phone];
                phone.join_written_at.is_some() || phone.ended_at.is_some()
            }
            NodeMessage::HangUp(..) => self.phones[phone].end_is_written,
            _ => false,
        };
        if is_moot || self.phones[phone].is_refused || self.phones[phone].is_silent {
            return;
        }
        self.send(bridge, phone, message.clone());
        let again = self.chance.between(SAID_AGAIN_MS, 2 * SAID_AGAIN_MS);
        self.after(again, move |world| world.say(phone, message));
    }

    /// Sends a message to the bridge's node; a duplicate may reach another node.
    fn send(&mut self, bridge: usize, phone: usize, message: NodeMessage) {
        let there = self.bridges[bridge].at;
        let is_up = |world: &Self, (machine, number)| world.runs(machine, number);
        let Some(there) = there.filter(|there| is_up(self, *there)) else {
            if let Some((_, number)) = there {
                self.disconnected(bridge, number);
            }
            return;
        };
        self.bridges[bridge].next += 1;
        let number = self.bridges[bridge].next;
        self.bridges[bridge].waiting.insert(number, message.clone());
        let from = MessageSource {
            bridge: Some(bridge),
            phone,
            number,
        };
        let rough = self.has(InjectedFault::Messages);
        let late = match rough && self.chance.happens(200) {
            true => self.chance.between(100, 20_000),
            false => self.chance.between(1, 60),
        };
        if rough && self.chance.happens(200) {
            let other = self.any_machine().unwrap_or(there.0);
            // Two nodes that receive it at once do not know of each other's work yet.
            let most = self.chance.pick(&[20, 8_000]);
            let after = self.chance.between(0, most);
            self.arrive(other, None, from, message.clone(), late + after);
        }
        if rough && self.chance.happens(50) {
            return;
        }
        self.arrive(there.0, Some(there.1), from, message, late);
    }

    pub(super) fn arrive(
        &mut self,
        machine: usize,
        process: Option<u64>,
        from: MessageSource,
        message: NodeMessage,
        late: i64,
    ) {
        self.after(late, move |world| {
            if process.is_some_and(|number| !world.runs(machine, number)) {
                return;
            }
            let name = world.phones.get(from.phone).map(|phone| phone.name.clone());
            if let Some(process) = &world.machines[machine].process
                && process.is_ready.get()
            {
                let (number, name) = (process.number, name.unwrap_or_default());
                let told = message.clone();
                process.receive(world.base, from, name.clone(), message);
                if !matches!(told, NodeMessage::Heartbeat(..)) {
                    world.tell(|| format!("process {number} hears of {name}: {told:?}"));
                }
                world.run(machine);
            }
        });
    }

    /// Sends a node's answer back.
    pub(super) fn answered(&mut self, from: MessageSource, answer: NodeAnswer) {
        let rough = self.has(InjectedFault::Messages);
        if rough && self.chance.happens(50) {
            return;
        }
        let late = if rough {
            self.chance.between(1, 500)
        } else {
            self.chance.between(1, 40)
        };
        self.after(late, move |world| world.hear(from, answer));
    }

    fn hear(&mut self, from: MessageSource, answer: NodeAnswer) {
        let Some(bridge) = from.bridge else {
            return self.hear_api(from, &answer);
        };
        // A bridge that died has forgotten its earlier messages.
        let Some(said) = self.bridges[bridge].waiting.remove(&from.number) else {
            return;
        };
        match answer {
            NodeAnswer::Over(calls) => {
                let now = self.now();
                let over = self
                    .phones
                    .iter_mut()
                    .filter(|phone| phone.ended_at.is_none());
                for phone in
                    over.filter(|phone| phone.call.is_some_and(|call| calls.contains(&call)))
                {
                    phone.ended_at = Some(now);
                    phone.is_silent = true;
                }
            }
            NodeAnswer::Said(CallReply::Admitted { call, .. }) => self.taken(from.phone, call),
            NodeAnswer::Said(CallReply::Refused { .. }) => {
                self.phones[from.phone].is_refused = true
            }
            NodeAnswer::Said(CallReply::Done) => self.done(from.phone, &said),
            NodeAnswer::Not(CallError::InvalidTransition { .. } | CallError::UnknownCall) => {
                let now = self.now();
                if let Some(phone) = self.phones.get_mut(from.phone) {
                    phone.is_silent = true;
                    phone.ended_at.get_or_insert(now);
                }
            }
            NodeAnswer::Not(_) | NodeAnswer::Booked => {}
        }
    }

    fn taken(&mut self, number: usize, call: CallId) {
        let phone = &mut self.phones[number];
        if phone.call.is_some_and(|known| known != call) {
            let name = phone.name.clone();
            return self.breaks(format!("{name} is two calls"));
        }
        if phone.call.replace(call).is_some() || phone.ended_at.is_some() {
            return;
        }
        let (ring_ms, picks_up) = (phone.ring_ms, phone.picks_up);
        self.after(ring_ms, move |world| {
            if picks_up {
                world.pick_up(number, call);
            } else {
                world.hang_up(number, HangupReason::Abandoned, HangupInitiator::Caller);
            }
        });
    }

    fn pick_up(&mut self, number: usize, call: CallId) {
        let now = self.now();
        let phone = &mut self.phones[number];
        if phone.ended_at.is_some() {
            return;
        }
        phone.answered_at = Some(now);
        let talk_ms = phone.talk_ms;
        self.say(number, NodeMessage::Answered(call, BEGAN.plus_ms(now)));
        self.after(talk_ms, move |world| {
            world.hang_up(number, HangupReason::Normal, HangupInitiator::Caller);
        });
    }

    fn hang_up(&mut self, number: usize, reason: HangupReason, initiator: HangupInitiator) {
        let now = self.now();
        let phone = &mut self.phones[number];
        let Some(call) = phone.call.filter(|_| phone.ended_at.is_none()) else {
            return;
        };
        phone.ended_at = Some(now);
        phone.is_in_order = phone.answered_at.is_none() || phone.answer_is_written;
        let at = BEGAN.plus_ms(now);
        self.say(number, NodeMessage::HangUp(call, at, reason, initiator));
    }

    /// Records that a message was acknowledged.
    fn done(&mut self, number: usize, said: &NodeMessage) {
        let now = self.now();
        let phone = &mut self.phones[number];
        match said {
            NodeMessage::Answered(call, _) => {
                let is_first = !std::mem::replace(&mut phone.answer_is_written, true);
                if let Some(after_ms) = phone.joins_after_ms.filter(|_| is_first) {
                    let call = *call;
                    self.after(after_ms, move |world| {
                        let at = BEGAN.plus_ms(world.now());
                        world.say(number, NodeMessage::Joined(call, at));
                        // Nothing else ends the longest calls any more.
                        let talk_ms = world.chance.between(0, 400_000);
                        world.after(talk_ms, move |world| {
                            world.hang_up(
                                number,
                                HangupReason::Transferred,
                                HangupInitiator::Caller,
                            );
                        });
                    });
                }
            }
            NodeMessage::Joined(..) => phone.join_written_at = Some(now),
            NodeMessage::HangUp(..) => phone.end_is_written = true,
            _ => {}
        }
    }

    /// A command reached the bridge.
    pub(super) fn command(&mut self, bridge: usize, process: u64, command: Command) {
        let late = self.chance.between(1, 60);
        self.after(late, move |world| {
            if world.bridges[bridge].at.is_none_or(|(_, at)| at != process) {
                return;
            }
            let CommandKind::Hangup { reason } = command.kind else {
                return;
            };
            let is_it = |phone: &super::phones::SimulatedPhone| {
                phone.call == Some(command.call) && phone.obeys
            };
            if let Some(number) = world.phones.iter().position(is_it) {
                world.hang_up(number, reason, HangupInitiator::System);
            }
        });
    }
}
