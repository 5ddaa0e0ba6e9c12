//! The terminal while `dikala top` uses it: output, input and restoration.

use std::{io, thread, time::Duration};

use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event},
};
use tokio::sync::mpsc;

use crate::cli::CliError;

/// Interval at which the reading thread checks that its receiver still exists.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Bound of unprocessed keys.
const KEYS_MAX: usize = 64;

/// The terminal in raw mode. Dropping it restores the terminal; a panic restores it before the message is printed.
#[derive(Debug)]
pub struct Screen {
    terminal: DefaultTerminal,
    events: mpsc::Receiver<Event>,
}

impl Screen {
    pub fn enter() -> Result<Self, CliError> {
        let terminal = ratatui::try_init().map_err(|error| {
            ratatui::restore();
            CliError::Failed(format!(
                "this terminal cannot be drawn on ({error}); `dikala top --once` prints a table"
            ))
        })?;
        let (sent, events) = mpsc::channel(KEYS_MAX);
        thread::spawn(move || read(&sent));
        Ok(Self { terminal, events })
    }

    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), CliError> {
        let drawn = self.terminal.draw(draw);
        drawn
            .map(drop)
            .map_err(|error| CliError::Failed(format!("the terminal cannot be drawn on: {error}")))
    }

    /// The next event; `None` once the terminal is gone.
    pub async fn event(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Reads events until the receiver or the terminal is gone.
fn read(sent: &mpsc::Sender<Event>) {
    let next = || -> io::Result<Option<Event>> {
        if event::poll(LOOK_EVERY)? {
            event::read().map(Some)
        } else {
            Ok(None)
        }
    };
    while !sent.is_closed() {
        match next() {
            Ok(None) => {}
            Ok(Some(event)) => {
                if sent.blocking_send(event).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}
