//! Fault injection for tests of the real binary: an actor that panics, sticks, blocks its thread or has a full
//! mailbox, and a wall clock that was set.
//!
//! Only in debug builds, and only if the environment variable `FAIL_POINTS` names a pipe. Each
//! line of the pipe is a fault, an actor's metric name and milliseconds: `stick webhook_dispatcher 6000`.
//! `FAIL_POINT_CLOCK` names a file with the wall clock's offset in milliseconds.

use std::{
    ffi::OsString,
    fs,
    sync::{LazyLock, Mutex, PoisonError},
    thread,
    time::Duration,
};

use actix::{Actor, AsyncContext, Message, Recipient, fut::wrap_future};

static PIPE: LazyLock<Option<OsString>> = LazyLock::new(|| {
    let pipe = std::env::var_os("FAIL_POINTS")?;
    let read = pipe.clone();
    thread::spawn(move || {
        loop {
            let lines = fs::read_to_string(&read).unwrap_or_default();
            lines.lines().for_each(inject);
        }
    });
    Some(pipe)
});
static ACTORS: Mutex<Vec<(&'static str, Recipient<Fail>)>> = Mutex::new(Vec::new());

/// The wall clock's current offset according to the file, in microseconds.
pub fn wall_set_by_us() -> i64 {
    static FILE: LazyLock<Option<OsString>> =
        LazyLock::new(|| std::env::var_os("FAIL_POINT_CLOCK"));
    let Some(file) = FILE.as_ref() else {
        return 0;
    };
    let said = fs::read_to_string(file).unwrap_or_default();
    said.trim()
        .parse::<i64>()
        .map_or(0, |ms| ms.saturating_mul(1_000))
}

/// The fault that an actor shows when it handles this message.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub enum Fail {
    Panic,
    /// Handles no other message for this long, but does not block its thread.
    Stick(Duration),
    /// Blocks its thread for this long.
    Block(Duration),
    /// Does nothing but fill the mailbox.
    Nothing,
}

/// Registers a new actor for fault injection.
pub fn register(name: &'static str, actor: Recipient<Fail>) {
    if PIPE.is_none() {
        return;
    }
    let mut actors = ACTORS.lock().unwrap_or_else(PoisonError::into_inner);
    actors.retain(|(_, known)| known.connected());
    actors.push((name, actor));
}

/// Carries out the fault.
pub fn act<A>(fail: Fail, ctx: &mut A::Context)
where
    A: Actor,
    A::Context: AsyncContext<A>,
{
    match fail {
        Fail::Panic => panic!("on purpose"),
        Fail::Stick(time) => ctx.wait(wrap_future(tokio::time::sleep(time))),
        Fail::Block(time) => thread::sleep(time),
        Fail::Nothing => {}
    }
}

fn inject(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [fault, name, ms] = words[..] else {
        panic!("{line:?} is no fault");
    };
    let time = Duration::from_millis(ms.parse().expect("milliseconds"));
    let actors = ACTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let named = actors.iter().filter(|(known, _)| *known == name);
    for (_, actor) in named {
        let first = match fault {
            "panic" => Fail::Panic,
            "block" => Fail::Block(time),
            "stick" | "fill" => Fail::Stick(time),
            other => panic!("{other:?} is no fault"),
        };
        let taken = actor.try_send(first);
        // Until the mailbox is full.
        while fault == "fill" && taken.is_ok() && actor.try_send(Fail::Nothing).is_ok() {}
    }
}
