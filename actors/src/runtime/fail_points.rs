//! Faults on demand, for tests of the real program: an actor that panics, is stuck, holds up its thread, or has a full mailbox, and
//! a wall clock that was set.
//!
//! Only in builds for tests, by the feature `fail-points`; and there only where the environment variable `FAIL_POINTS` names a
//! pipe. A line of that pipe is a fault, an actor's name as metrics have it, and for how many milliseconds:
//! `stick webhook_dispatcher 6000`. `FAIL_POINT_CLOCK` names a file that says by how many milliseconds the wall clock was set.

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

/// By how much the wall clock was set, in microseconds, as the file says at this moment.
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

/// What an actor does when it takes this message.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub enum Fail {
    Panic,
    /// Takes no other message for so long, and leaves its thread to others.
    Stick(Duration),
    /// Holds up everything on its thread for so long.
    Block(Duration),
    /// Only fills the mailbox.
    Nothing,
}

/// An actor was started that can be told.
pub fn register(name: &'static str, actor: Recipient<Fail>) {
    if PIPE.is_none() {
        return;
    }
    let mut actors = ACTORS.lock().unwrap_or_else(PoisonError::into_inner);
    actors.retain(|(_, known)| known.connected());
    actors.push((name, actor));
}

/// Does it.
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
        // Until there is no room.
        while fault == "fill" && taken.is_ok() && actor.try_send(Fail::Nothing).is_ok() {}
    }
}
