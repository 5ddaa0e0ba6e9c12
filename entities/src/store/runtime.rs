//! The runtime of all connections. A socket belongs to the runtime that opened it and dies with it, but the HTTP
//! threads end seconds before the last writes. So one runtime lasts as long as the process.
//!
//! It only watches sockets and timers: work on the database is polled by its caller, inside this runtime's context.

use std::{
    future::{Future, pending, poll_fn},
    sync::LazyLock,
    thread,
};

use tokio::runtime::{Builder, Handle};

static RUNTIME: LazyLock<Handle> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the operating system gives a poller to who starts");
    let handle = runtime.handle().clone();
    thread::Builder::new()
        .name("store".to_owned())
        .spawn(move || runtime.block_on(pending::<()>()))
        .expect("the operating system gives a thread to who starts");
    handle
});

/// Awaits `work` so that all its sockets and timers belong to the lasting runtime. Boxed, because futures of database
/// libraries are large and would be part of every caller's.
pub(super) fn inside<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let mut work = Box::pin(work);
    poll_fn(move |cx| {
        let _entered = RUNTIME.enter();
        work.as_mut().poll(cx)
    })
}

/// Runs `work` even if no caller waits for it.
pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    drop(RUNTIME.spawn(work));
}
