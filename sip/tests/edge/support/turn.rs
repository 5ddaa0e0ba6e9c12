//! Limits how many of these tests run at once: they time audio to 20 ms, which two cores can do for six.

use std::{
    cell::OnceCell,
    sync::{Condvar, Mutex},
};

const AT_ONCE: usize = 6;

static RUNNING: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

thread_local! {
    static TURN: OnceCell<Turn> = const { OnceCell::new() };
}

/// So many turns of one test.
struct Turn(usize);

impl Turn {
    fn take(turns: usize) -> Self {
        let running = RUNNING.lock().unwrap();
        let is_full = |running: &mut usize| *running + turns > AT_ONCE;
        let mut running = FREED.wait_while(running, is_full).unwrap();
        *running += turns;
        Self(turns)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap() -= self.0;
        FREED.notify_all();
    }
}

/// Waits for the turn of this test, which ends with its thread.
pub fn wait_for_turn() {
    TURN.with(|turn| turn.get_or_init(|| Turn::take(1)).0);
}

/// The same for a test of many calls at once, beside which one other test runs.
pub fn wait_for_most_turns() {
    TURN.with(|turn| turn.get_or_init(|| Turn::take(AT_ONCE - 1)).0);
}
