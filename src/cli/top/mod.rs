//! `dikala top`: shows overview and actors of a running service in a terminal, through its operators' listener.
//!
//! [`overview`] and [`actors`] read the answers, [`view`] draws them, [`terminal`] owns the terminal.

mod actors;
mod overview;
mod terminal;
mod view;

#[cfg(test)]
mod tests;

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::{
    actors::{COLUMNS, COLUMNS_COUNT, SORTED_AT_FIRST, TopActors, sort, written},
    overview::TopOverview,
    terminal::Screen,
    view::TopView,
};
use super::{
    CliError,
    listener::{Listener, ListenerArgs, ListenerError},
    output,
};
use crate::{
    app::wait_for_signal,
    config::{ConfigError, Layers},
};

/// Interval between two requests.
const EVERY: Duration = Duration::from_secs(1);
/// Requests before `--once` prints without rates: a service measures them only while it is asked.
const LOOKS_MAX: usize = 6;

/// Options of `dikala top`.
#[derive(Debug, Args)]
pub struct TopOptions {
    #[command(flatten)]
    listener: ListenerArgs,
    /// Print it once, as a table.
    #[arg(long)]
    once: bool,
}

/// The listener's answers.
#[derive(Clone, Debug)]
struct TopReading {
    overview: TopOverview,
    actors: TopActors,
}

/// Shows the view until `q`, or prints it once.
pub async fn run(
    options: TopOptions,
    layers: impl FnOnce() -> Result<Layers, ConfigError>,
    as_json: bool,
) -> Result<(), CliError> {
    let listener = Listener::new(options.listener, layers)?;
    if options.once || as_json {
        return print(&settled(&listener).await?, as_json);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(CliError::Usage(
            "this is no terminal to draw on; `dikala top --once` prints a table, `dikala top --json` a document"
                .to_owned(),
        ));
    }
    // A permanent error is reported before the terminal is taken over.
    if let Err(ListenerError::Refused(error)) = look(&listener).await {
        return Err(error);
    }
    watch(listener).await
}

/// Both documents, unchanged.
async fn look(listener: &Listener) -> Result<Value, ListenerError> {
    let (overview, actors) = tokio::join!(listener.get("/overview"), listener.get("/actors"));
    let (overview, actors) = (overview?, actors?);
    let part = |name: &str| actors.get(name).cloned().unwrap_or_default();
    Ok(json!({"overview": overview, "actors": part("actors"), "eventLoops": part("eventLoops")}))
}

impl TopReading {
    fn read(document: &Value) -> Result<Self, CliError> {
        let unread = |error: serde_json::Error| {
            CliError::Failed(format!(
                "the listener answers as no version that this one knows ({error}); use the `dikala` of the same version"
            ))
        };
        Ok(Self {
            overview: TopOverview::deserialize(&document["overview"]).map_err(unread)?,
            actors: TopActors::deserialize(document).map_err(unread)?,
        })
    }
}

/// Asks until the answer has rates, at most [`LOOKS_MAX`] times.
async fn settled(listener: &Listener) -> Result<Value, CliError> {
    let mut looks = 1;
    loop {
        let document = look(listener).await?;
        if TopReading::read(&document)?.actors.has_rates() || looks == LOOKS_MAX {
            return Ok(document);
        }
        looks += 1;
        tokio::time::sleep(EVERY).await;
    }
}

fn print(document: &Value, as_json: bool) -> Result<(), CliError> {
    if as_json {
        return output::text(&document.to_string());
    }
    let TopReading { overview, actors } = TopReading::read(document)?;
    let TopOverview { node, version, .. } = &overview;
    let uptime = overview.uptime();
    output::text(&format!(
        "{node} {version}, up {uptime}, at {}\n",
        overview.at
    ))?;
    for problem in &overview.problems {
        output::text(&format!("{}: {}", problem.severity, problem.sentence()))?;
    }
    if overview.problems.is_empty() {
        output::text("Nothing is wrong.")?;
    }
    output::text("")?;
    let figures = overview.figures.iter();
    let figures = figures.map(|of| [of.label.clone(), of.value(), of.limit()]);
    output::grid(["figure", "now", "limit"], figures.collect())?;
    output::text("")?;
    let mut rows = actors.rows(false);
    sort(&mut rows, SORTED_AT_FIRST, false);
    let rows = rows.into_iter().map(|row| {
        let cell = |at: usize| written(row.figures[at], COLUMNS[at]);
        let figures: [String; COLUMNS_COUNT] = std::array::from_fn(cell);
        let mut cells = figures.into_iter();
        std::array::from_fn(|at| match at {
            0 => row.name.clone(),
            _ => cells.next().unwrap_or_default(),
        })
    });
    let mut titles = COLUMNS.iter().map(|column| column.title);
    let head: [&str; COLUMNS_COUNT + 1] = std::array::from_fn(|at| match at {
        0 => "actor",
        _ => titles.next().unwrap_or_default(),
    });
    output::grid(head, rows.collect())?;
    output::text(&format!("\n{}", actors.lateness()))
}

/// Draws until the user quits or the terminal is gone.
async fn watch(listener: Listener) -> Result<(), CliError> {
    let mut view = TopView::new(listener.place());
    let stop = wait_for_signal();
    tokio::pin!(stop);
    let (sent, mut looks) = mpsc::channel(1);
    // In a task of its own, so that a hanging listener does not block keys.
    let asking = actix_web::rt::spawn(async move {
        while sent.send(look(&listener).await).await.is_ok() {
            tokio::time::sleep(EVERY).await;
        }
    });
    let mut screen = Screen::enter()?;
    let mut seen_at = Instant::now();
    let ended = loop {
        if let Err(error) = screen.draw(|frame| view.draw(frame)) {
            break Err(error);
        }
        tokio::select! {
            event = screen.event() => match event {
                Some(event) if view.press(&event) => {}
                _ => break Ok(()),
            },
            Some(looked) = looks.recv() => {
                let looked = looked.and_then(|document| TopReading::read(&document).map_err(ListenerError::Refused));
                match looked {
                    Ok(look) => {
                        seen_at = Instant::now();
                        view.seen(look);
                    }
                    Err(trouble) => view.missed(&trouble.to_string(), seen_at.elapsed().as_secs()),
                }
            }
            () = &mut stop => break Ok(()),
        }
    };
    asking.abort();
    ended
}
