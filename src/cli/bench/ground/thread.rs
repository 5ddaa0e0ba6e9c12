//! Runs work on threads with their own runtime, so that measuring and measured code do not wait for each other.

use std::{net::SocketAddr, thread};

use tokio::{net::TcpListener, runtime::Builder, sync::oneshot, task::LocalSet};

use crate::cli::bench::{Result, failed};

/// Runs `work` on a new thread and returns its result.
pub async fn on_thread<T, F>(work: impl FnOnce() -> F + Send + 'static) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>>,
{
    let (tell, told) = oneshot::channel();
    spawn(move || async move {
        // The receiver is gone if the measurement was interrupted.
        let _ = tell.send(work().await);
    })?;
    told.await
        .map_err(|_| failed("a thread of the measurement ended before its work"))?
}

/// Serves connections on a new thread until the process ends. Returns the address.
pub async fn listen<F>(serve: impl FnOnce(TcpListener) -> F + Send + 'static) -> Result<SocketAddr>
where
    F: Future<Output = ()>,
{
    let (tell, told) = oneshot::channel();
    spawn(move || async move {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let address = listener.as_ref().map(TcpListener::local_addr);
        let _ = tell.send(match address {
            Ok(Ok(address)) => Ok(address),
            Ok(Err(error)) => Err(failed(error)),
            Err(error) => Err(failed(error)),
        });
        if let Ok(listener) = listener {
            serve(listener).await;
        }
    })?;
    told.await
        .map_err(|_| failed("a listener of the measurement did not start"))?
}

fn spawn<F>(work: impl FnOnce() -> F + Send + 'static) -> Result<()>
where
    F: Future<Output = ()>,
{
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let thread = thread::Builder::new().name("bench".to_owned());
    let spawned = thread.spawn(move || LocalSet::new().block_on(&runtime, work()));
    spawned.map(drop).map_err(failed)
}
