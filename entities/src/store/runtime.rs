//! The runtime that connections live on. A socket belongs to the runtime in which it was opened and dies with it; the threads
//! that serve HTTP end seconds before those that still have something to write. So there is one runtime for all connections,
//! which lasts as long as the process.
//!
//! It only watches sockets and clocks: what waits for the database is polled where it is awaited, inside this runtime's context.

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

/// Awaits `work` so that every socket and timer it makes belongs to the lasting runtime. In a box: what speaks to a database is
/// large, and would be part of every future that comes to it.
pub(super) fn inside<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let mut work = Box::pin(work);
    poll_fn(move |cx| {
        let _entered = RUNTIME.enter();
        work.as_mut().poll(cx)
    })
}

/// Does `work` whether or not anybody waits for it.
pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    drop(RUNTIME.spawn(work));
}
