//! Limits how many of these tests run at once: they time audio to 20 ms, which two cores can do for four.

use std::sync::{Condvar, Mutex};

const AT_ONCE: usize = 4;

static RUNNING: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

thread_local! {
    static TURN: Turn = Turn::take();
}

struct Turn;

impl Turn {
    fn take() -> Self {
        let running = RUNNING.lock().unwrap();
        let mut running = FREED.wait_while(running, |all| *all >= AT_ONCE).unwrap();
        *running += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap() -= 1;
        FREED.notify_one();
    }
}

/// Waits for the turn of this test, which ends with its thread.
pub fn wait_for_turn() {
    TURN.with(|_| ());
}
