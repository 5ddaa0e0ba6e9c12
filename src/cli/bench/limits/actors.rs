//! Lower bound of a call's memory: an actix actor with nothing but a timer.

use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context};

use crate::cli::bench::{Result, failed, ground::server::resident};

const FOR_LONG: Duration = Duration::from_secs(3_600);

struct Empty;

impl Actor for Empty {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_later(FOR_LONG, |_, _| {});
    }
}

/// Starts `count` actors in this process, which should be fresh. Returns the bytes per actor.
pub async fn measure_here(count: usize) -> Result<u64> {
    let before = memory_here()?;
    let mut actors: Vec<Addr<Empty>> = Vec::with_capacity(count);
    for _ in 0..count {
        actors.push(Empty.start());
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let after = memory_here()?;
    drop(actors);
    Ok(after.saturating_sub(before) / (count as u64).max(1))
}

/// Measures in a process of its own.
pub fn measure(count: usize) -> Result<f64> {
    let program = std::env::current_exe().map_err(failed)?;
    let output = std::process::Command::new(program)
        .args(["bench", "--empty-actors", &count.to_string()])
        .output()
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let bytes: Option<u32> = text.trim().parse().ok();
    bytes
        .map(f64::from)
        .ok_or_else(|| failed("the memory of empty actors could not be measured"))
}

fn memory_here() -> Result<u64> {
    resident(&std::fs::read_to_string("/proc/self/status").map_err(failed)?)
}
