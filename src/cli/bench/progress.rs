//! Shows the progress of a measurement on standard error.

use std::{io::IsTerminal, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::note::note;

/// A bar on a terminal, lines elsewhere.
#[derive(Debug)]
pub struct BenchProgress {
    bar: Option<ProgressBar>,
}

impl BenchProgress {
    pub fn new(scenarios: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{spinner} {pos}/{len} {prefix}  {msg}  {elapsed}")
                    .expect("the template is a constant");
            let bar = ProgressBar::new(scenarios as u64).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar }
    }

    /// Announces a scenario.
    pub fn begin(&self, scenario: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_prefix(scenario.to_owned());
                bar.set_message("");
            }
            None => note(format_args!("{scenario} …")),
        }
    }

    /// Marks the scenario as finished.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Shows the current activity or a result.
    pub fn say(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => note(format_args!("  {what}")),
        }
    }
}

impl Drop for BenchProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
