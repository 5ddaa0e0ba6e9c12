//! The world: its time and scheduled events, the machines with their processes, and the network between them and the
//! store.

use std::collections::BTreeMap;

use dikala_entities::credit_account;
use futures_util::FutureExt;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{
    SimulationResult,
    base::SharedBase,
    checks,
    phones::{ModelBridge, SimulatedPhone},
    process::{ProcessSettings, SimulatedProcess},
    setting::{InjectedFault, SimulationSetting},
};
use crate::{
    runtime::simulated::{
        chance::Chance,
        clock::TrueTime,
        tables::{Flaw, Tables},
        wire::NetworkRequest,
    },
    webhooks::simulated::SimulatedReceiver,
};

/// Duration of the phase with faults and new calls.
pub(super) const ROUGH_MS: i64 = 240_000;
/// The latest end of a simulation.
const LAST_MS: i64 = ROUGH_MS + 20 * 60_000;

type ScheduledEvent = Box<dyn FnOnce(&mut SimulatedWorld<'_>)>;

#[derive(Default)]
pub(super) struct SimulatedMachine {
    pub(super) process: Option<SimulatedProcess>,
    pub(super) paused_until: i64,
    pub(super) cut_until: i64,
    /// The next time at which its process must run.
    wakes_at: i64,
    /// Ids of nodes that are gone.
    gone: Vec<String>,
}

/// The fate of a request.
enum RequestFate {
    /// Carried out after the first delay, answered after the second.
    Answered(i64, i64),
    /// Carried out after the first delay; the sender learns after the second that the outcome is unknown.
    Unanswered(i64, i64),
    /// Not carried out; the sender learns after this delay that the outcome is unknown.
    Lost(i64),
}

pub(super) struct SimulatedWorld<'a> {
    pub(super) base: &'a SharedBase,
    pub(super) setting: &'a SimulationSetting,
    pub(super) flaw: Option<Flaw>,
    pub(super) time: TrueTime,
    due: BTreeMap<(i64, u64), ScheduledEvent>,
    next: u64,
    pub(super) chance: Chance,
    pub(super) tables: Tables,
    pub(super) receiver: SimulatedReceiver,
    pub(super) machines: Vec<SimulatedMachine>,
    pub(super) bridges: Vec<ModelBridge>,
    pub(super) phones: Vec<SimulatedPhone>,
    pub(super) top_ups: BTreeMap<String, i64>,
    /// Beginning and end of each fault.
    pub(super) troubles: Vec<(i64, i64)>,
    outage_until: i64,
    processes: u64,
    questions: u64,
    breach: Option<String>,
    tells: bool,
    log: Vec<String>,
}

impl<'a> SimulatedWorld<'a> {
    pub(super) fn new(
        base: &'a SharedBase,
        setting: &'a SimulationSetting,
        flaw: Option<Flaw>,
        tells: bool,
    ) -> Self {
        let mut chance = Chance::new(setting.seed ^ 0x005e_ed00);
        let mut tables = Tables {
            flaw,
            ..Tables::default()
        };
        let account = credit_account::Model {
            available: setting.minutes,
            purchased: setting.minutes,
            posted: setting.minutes,
            ..credit_account::Model::empty(base.tenant, 0)
        };
        tables.accounts.insert(base.tenant, account);
        tables.webhooks.insert(base.tenant, base.webhooks.clone());
        for bridge in &base.bridges {
            tables.bridges.entry(*bridge).or_default();
        }
        let fails = setting.has(InjectedFault::Receivers);
        let receiver = SimulatedReceiver {
            received: Vec::new(),
            fails_permille: if fails { chance.between(50, 500) } else { 0 },
            chance: chance.fork(),
        };
        Self {
            base,
            setting,
            flaw,
            time: TrueTime::default(),
            due: BTreeMap::new(),
            next: 0,
            chance,
            tables,
            receiver,
            machines: (0..setting.nodes)
                .map(|_| SimulatedMachine::default())
                .collect(),
            bridges: Vec::new(),
            phones: Vec::new(),
            top_ups: BTreeMap::new(),
            troubles: Vec::new(),
            outage_until: 0,
            processes: 0,
            questions: 0,
            breach: None,
            tells,
            log: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> i64 {
        self.time.now()
    }

    /// True during the phase with faults.
    pub(super) fn is_rough(&self) -> bool {
        self.now() < ROUGH_MS
    }

    pub(super) fn has(&self, fault: InjectedFault) -> bool {
        self.setting.has(fault) && self.is_rough()
    }

    pub(super) fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.tells {
            self.log.push(format!("{:>9} ms  {}", self.now(), what()));
        }
    }

    pub(super) fn breaks(&mut self, what: String) {
        self.tell(|| format!("BROKEN: {what}"));
        self.breach.get_or_insert(what);
    }

    /// Schedules an event after a delay.
    pub(super) fn after(
        &mut self,
        ms: i64,
        happening: impl FnOnce(&mut SimulatedWorld<'_>) + 'static,
    ) {
        self.next += 1;
        let at = self.now() + ms.max(0);
        self.due.insert((at, self.next), Box::new(happening));
    }

    /// Runs until all is over or an invariant fails.
    pub(super) fn play(mut self) -> SimulationResult {
        for machine in 0..self.machines.len() {
            self.start(machine);
        }
        self.begin_to_call();
        self.plan_faults();
        self.after(ROUGH_MS, |world| world.calm_down());
        while self.breach.is_none()
            && let Some(((at, _), happening)) = self.due.pop_first()
        {
            self.time.set(at);
            happening(&mut self);
            if self.now() > LAST_MS || (self.now() > ROUGH_MS && self.is_over()) {
                break;
            }
        }
        if self.breach.is_none() {
            self.breach = checks::in_the_end(&self).err();
        }
        for machine in 0..self.machines.len() {
            self.kill(machine);
        }
        let account = &self.tables.accounts[&self.base.tenant];
        let calls = self.tables.calls.values();
        SimulationResult {
            at: self.time.now(),
            calls: calls.len(),
            answered: calls
                .clone()
                .filter(|row| row.answered_at.is_some())
                .count(),
            moved: calls.filter(|row| row.epoch > 1).count(),
            minutes: account.used,
            attempts: self.receiver.received.len(),
            questions: self.questions,
            breach: self.breach,
            log: self.log,
        }
    }

    fn is_over(&self) -> bool {
        let nobody_speaks = self.phones.iter().all(SimulatedPhone::is_done);
        nobody_speaks && checks::all_is_done(&self.tables)
    }

    pub(super) fn start(&mut self, machine: usize) {
        self.processes += 1;
        let number = self.processes;
        let (mut ahead_ms, mut quick_permille) = (0, 0);
        if self.setting.has(InjectedFault::Clocks) {
            ahead_ms = self.chance.between(-2_000, 2_000);
            quick_permille = self.chance.between(-10, 10);
        }
        let process = SimulatedProcess::start(ProcessSettings {
            base: self.base,
            number,
            time: self.time.clone(),
            ahead_ms,
            quick_permille,
            gone: self.machines[machine].gone.clone(),
            flaw: self.flaw,
        });
        self.tell(|| format!("process {number} starts, {ahead_ms} ms ahead"));
        self.machines[machine].process = Some(process);
        self.run(machine);
    }

    pub(super) fn kill(&mut self, machine: usize) {
        if let Some(process) = self.machines[machine].process.take() {
            process.tasks.crash();
            let names = process.names.borrow().clone();
            self.tell(|| format!("process {} is killed", process.number));
            self.machines[machine].gone.extend(names);
        }
    }

    /// True if that process still runs on that machine.
    pub(super) fn runs(&self, machine: usize, number: u64) -> bool {
        let process = self.machines[machine].process.as_ref();
        process.is_some_and(|process| process.number == number)
    }

    /// Runs a process until it waits for something.
    pub(super) fn run(&mut self, machine: usize) {
        let now = self.now();
        let place = &mut self.machines[machine];
        let Some(process) = &mut place.process else {
            return;
        };
        if place.paused_until > now {
            return;
        }
        process.clock.wake();
        process.tasks.run();
        let next = process.clock.wake();
        let number = process.number;
        let asks = all(&mut process.asks);
        let posts = all(&mut process.posts);
        let answers = std::mem::take(&mut *process.answers.borrow_mut());
        if let Some(at) = next.filter(|at| place.wakes_at <= now || *at < place.wakes_at) {
            place.wakes_at = at;
            self.after(at - now, move |world| world.run(machine));
        }
        for asked in asks {
            self.carry(machine, number, asked);
        }
        for post in posts {
            self.post(machine, number, post);
        }
        for (from, answer) in answers {
            self.answered(from, answer);
        }
        self.hand_over_commands(machine);
    }

    fn carry(&mut self, machine: usize, number: u64, asked: NetworkRequest<Tables>) {
        self.questions += 1;
        match self.fate(machine) {
            RequestFate::Answered(after, then) => self.after(after, move |world| {
                if let Some(answer) = world.carry_out(machine, number, asked) {
                    world.after(then, move |world| {
                        if world.runs(machine, number) {
                            answer();
                            world.run(machine);
                        }
                    });
                }
            }),
            RequestFate::Unanswered(after, then) => self.after(after, move |world| {
                let what = asked.what;
                if let Some(answer) = world.carry_out(machine, number, asked) {
                    world.tell(|| format!("{what} of process {number} is not answered"));
                    world.after(then, move |world| {
                        drop(answer);
                        world.run(machine);
                    });
                }
            }),
            RequestFate::Lost(after) => self.after(after, move |world| {
                drop(asked);
                world.run(machine);
            }),
        }
    }

    /// Carries out a request. If its process was killed meanwhile, it may have arrived or not.
    fn carry_out(
        &mut self,
        machine: usize,
        number: u64,
        asked: NetworkRequest<Tables>,
    ) -> Option<crate::runtime::simulated::wire::SendAnswer> {
        if !self.runs(machine, number) && self.chance.happens(500) {
            return None;
        }
        let (what, now) = (asked.what, self.now());
        let before = self.tables.changes.len();
        let answer = (asked.carry_out)(&mut self.tables, now);
        for change in &mut self.tables.changes[before..] {
            change.at = now;
        }
        if self.tells {
            for change in &self.tables.changes[before..] {
                let line = format!("{now:>9} ms  {change:?}");
                self.log.push(line);
            }
            if !matches!(
                what,
                "due" | "nodes" | "lost" | "bridges" | "owners" | "commands" | "signs"
            ) {
                self.log
                    .push(format!("{now:>9} ms  {what} of process {number}"));
            }
        }
        if let Err(breach) = checks::after(what, self, before) {
            self.breaks(breach);
        }
        Some(answer)
    }

    fn fate(&mut self, machine: usize) -> RequestFate {
        let now = self.now();
        let [mut there, back] = [self.chance.between(0, 4), self.chance.between(0, 4)];
        let is_away = self.machines[machine].cut_until > now || self.outage_until > now;
        if is_away {
            let waited = self.chance.between(200, 3_000);
            return if self.chance.happens(150) {
                RequestFate::Unanswered(there, waited)
            } else {
                RequestFate::Lost(waited)
            };
        }
        if self.has(InjectedFault::SlowStore) && self.chance.happens(60) {
            there += self.chance.between(0, 3_000);
        }
        if self.has(InjectedFault::LostAnswers) && self.chance.happens(40) {
            return match self.chance.below(3) {
                0 => RequestFate::Lost(there),
                1 => RequestFate::Unanswered(there, back),
                // It is carried out after the sender gave up.
                _ => RequestFate::Unanswered(there + self.chance.between(0, 2_500), 0),
            };
        }
        RequestFate::Answered(there, back)
    }

    fn post(&mut self, machine: usize, number: u64, post: NetworkRequest<SimulatedReceiver>) {
        let [there, back] = [self.chance.between(1, 400), self.chance.between(1, 400)];
        let is_lost = self.has(InjectedFault::Receivers) && self.chance.happens(30);
        self.after(there, move |world| {
            let now = world.now();
            let answer = (post.carry_out)(&mut world.receiver, now);
            let back = if is_lost { 15_000 } else { back };
            world.after(back, move |world| {
                if world.runs(machine, number) {
                    if is_lost {
                        drop(answer);
                    } else {
                        answer();
                    }
                    world.run(machine);
                }
            });
        });
    }

    fn plan_faults(&mut self) {
        let kinds = [
            InjectedFault::Crashes,
            InjectedFault::Pauses,
            InjectedFault::Cuts,
            InjectedFault::Outages,
        ];
        for kind in kinds.into_iter().filter(|kind| self.setting.has(*kind)) {
            for _ in 0..self.chance.between(1, 4) {
                let at = self.chance.between(1_000, ROUGH_MS - 1_000);
                let last = i64::try_from(self.machines.len()).unwrap_or(1);
                let machine = usize::try_from(self.chance.below(last)).unwrap_or(0);
                self.after(at, move |world| world.befall(kind, machine));
            }
        }
    }

    fn befall(&mut self, kind: InjectedFault, machine: usize) {
        let ms = match self.chance.below(3) {
            0 => self.chance.between(100, 3_000),
            1 => self.chance.between(3_000, 16_000),
            _ => self.chance.between(11_000, 90_000),
        };
        let until = self.now() + ms;
        self.troubles.push((self.now(), until));
        self.tell(|| format!("{kind} of machine {machine} for {ms} ms"));
        match kind {
            InjectedFault::Crashes => {
                self.kill(machine);
                self.after(ms, move |world| {
                    if world.machines[machine].process.is_none() {
                        world.start(machine);
                    }
                });
            }
            InjectedFault::Pauses => {
                let place = &mut self.machines[machine];
                place.paused_until = place.paused_until.max(until);
                self.after(ms, move |world| world.run(machine));
            }
            InjectedFault::Cuts => self.machines[machine].cut_until = until,
            _ => self.outage_until = until,
        }
    }

    /// Ends all faults; from here on everything must complete.
    fn calm_down(&mut self) {
        self.tell(|| "nothing goes wrong any more".to_owned());
        self.receiver.fails_permille = 0;
        self.outage_until = 0;
        for machine in 0..self.machines.len() {
            self.machines[machine].cut_until = 0;
            self.machines[machine].paused_until = 0;
            if self.machines[machine].process.is_none() {
                self.start(machine);
            }
            self.run(machine);
        }
    }

    /// Delivers commands to their sockets, and closes sockets that the node no longer wants.
    fn hand_over_commands(&mut self, machine: usize) {
        let Some(process) = &mut self.machines[machine].process else {
            return;
        };
        let number = process.number;
        let mut commands = Vec::new();
        let mut dismissed = Vec::new();
        for (bridge, socket) in &process.sockets {
            let taken = process.bridges.take_all(socket);
            commands.extend(taken.into_iter().map(|command| (*bridge, command)));
            if socket.dismissed().now_or_never().is_some() {
                dismissed.push(*bridge);
            }
        }
        process
            .sockets
            .retain(|(_, socket)| socket.dismissed().now_or_never().is_none());
        for (bridge, command) in commands {
            self.command(bridge, number, command);
        }
        for bridge in dismissed {
            self.disconnected(bridge, number);
        }
    }
}

fn all<T>(from: &mut UnboundedReceiver<T>) -> Vec<T> {
    std::iter::from_fn(|| from.try_recv().ok()).collect()
}
