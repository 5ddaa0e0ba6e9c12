//! `dikala completions` and `dikala man`: shell completions and manual pages, generated from the commands.

use std::{fs, path::Path};

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;

use super::{Cli, CliError, output};

/// `dikala completions SHELL`
pub fn completions(shell: Shell) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "dikala", &mut script);
    output::text(String::from_utf8_lossy(&script).trim_end())
}

/// `dikala man --out DIR`: a page for each command.
pub fn man(out: &Path, as_json: bool) -> Result<(), CliError> {
    let written = fs::create_dir_all(out).and_then(|()| {
        clap_mangen::generate_to(Cli::command(), out)?;
        let pages = fs::read_dir(out)?.flatten().map(|page| page.file_name());
        let mut pages: Vec<String> = pages
            .map(|page| page.to_string_lossy().into_owned())
            .filter(|page| page.starts_with("dikala") && page.ends_with(".1"))
            .collect();
        pages.sort_unstable();
        Ok(pages)
    });
    let pages = written.map_err(|error| {
        CliError::Failed(format!(
            "{} cannot be written ({error}); give another folder with --out",
            out.display()
        ))
    })?;
    if as_json {
        return output::text(&json!({"pages": pages}).to_string());
    }
    let count = output::count(pages.len() as u64, "page");
    output::text(&format!("{count} in {}", out.display()))
}
