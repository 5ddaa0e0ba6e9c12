//! `dikala init`: asks for the values that have no default, and writes a configuration with secrets that only its
//! owner can read.

use std::{
    fs,
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use dikala_actors::runtime::clock::{Clock, SystemClock};
use dikala_entities::Vault;
use rand::{RngExt, distr::Alphanumeric};
use serde_json::json;
use tempfile::NamedTempFile;

use super::{CliError, note::note, output};
use crate::config::{Layers, Settings};

/// The default file.
const FILE: &str = "dikala.toml";
const TOKEN_CHARS: usize = 40;

/// Options of `dikala init`. Missing ones are asked for on a terminal.
#[derive(Debug, Args)]
pub struct InitOptions {
    /// Where data are kept: sqlite:///path/to/file.db or postgres://user:password@host/name.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Where API, dashboard and bridges are served.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Where people reach that, such as `https://voice.example.com`.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Where the operators' API and metrics are served.
    #[arg(long, value_name = "ADDR")]
    operator_listen: Option<String>,
    /// The server that takes mails, such as `smtps://user:password@mail.example.com`.
    #[arg(long, value_name = "URL")]
    mail_url: Option<String>,
    /// The sender of mails, such as `Dikala <no-reply@example.com>`.
    #[arg(long, value_name = "ADDRESS")]
    mail_from: Option<String>,
    /// Ask nothing; missing options keep their defaults.
    #[arg(long, short)]
    yes: bool,
    /// Replace the file that is there. It is kept under another name, and its secrets.key goes on.
    #[arg(long)]
    overwrite: bool,
}

/// A key, the question for it, and its default answer.
struct Question {
    key: &'static str,
    text: &'static str,
    default: String,
    given: Option<String>,
}

/// Writes the file given by `--config` or `DIKALA_CONFIG`, or else `dikala.toml` in this folder.
pub fn run(options: InitOptions, file: Option<PathBuf>, as_json: bool) -> Result<(), CliError> {
    let named = || std::env::var_os("DIKALA_CONFIG").filter(|file| !file.is_empty());
    let file = file.or_else(|| named().map(PathBuf::from));
    let file = file.unwrap_or_else(|| FILE.into());
    let target = std::path::absolute(&file).map_err(|error| unwritable(&file, &error))?;
    if target.exists() && !options.overwrite {
        return Err(CliError::Refused(format!(
            "{} is there already; name another file with --config, or replace it with --overwrite",
            target.display()
        )));
    }
    let asks = !options.yes;
    if asks && !io::stdin().is_terminal() {
        return Err(CliError::Usage(
            "nobody can be asked here, for this is no terminal; give --yes, and with options what is not as it is by default"
                .to_owned(),
        ));
    }
    let mut layers = Layers::load(None, [])?;
    let mut written = Vec::new();
    for question in questions(options, &layers)? {
        let needs_mail = question.key == "mail.from";
        if needs_mail
            && question.given.is_none()
            && !written.iter().any(|(key, _)| *key == "mail.url")
        {
            continue;
        }
        let value = answer(&question, &mut layers, asks)?;
        if !value.is_empty() {
            written.push((question.key, value));
        }
    }
    let key = key_of(&target).unwrap_or_else(Vault::generate_key);
    for (name, value) in [
        ("operator.token", token()),
        ("operator.read_token", token()),
        ("secrets.key", key),
    ] {
        layers.set_from_command(name, &value)?;
        written.push((name, value));
    }
    let settings = Settings::new(&layers)?;
    settings.vault()?;
    let kept = write(&target, &document(&written))?;
    told(&target, kept.as_deref(), as_json)
}

fn questions(options: InitOptions, layers: &Layers) -> Result<[Question; 6], CliError> {
    let data = std::path::absolute("dikala-data/dikala.db");
    let data = data.map_err(|error| unwritable(Path::new("."), &error))?;
    let question = |key, text, given| Question {
        key,
        text,
        default: layers.text(key),
        given,
    };
    Ok([
        Question {
            // An absolute path, because the service may be started in another folder.
            default: format!("sqlite://{}", data.display()),
            ..question(
                "database.url",
                "Where are data kept? A file (sqlite:///path/to/file.db), or PostgreSQL (postgres://user:password@host/name)",
                options.database,
            )
        },
        question(
            "http.listen",
            "Where are API, dashboard and bridges served?",
            options.listen,
        ),
        question(
            "http.public_url",
            "Where do people reach that, such as https://voice.example.com? Nothing: at that address",
            options.public_url,
        ),
        question(
            "operator.listen",
            "Where are the operators' API and metrics served? They take a token, which is made",
            options.operator_listen,
        ),
        question(
            "mail.url",
            "Which server takes mails, such as smtps://user:password@mail.example.com? Nothing: none are sent",
            options.mail_url,
        ),
        question(
            "mail.from",
            "Whom are they from, such as Dikala <no-reply@example.com>?",
            options.mail_from,
        ),
    ])
}

/// The given value, or else the answer to the question, which is repeated until it is valid.
fn answer(question: &Question, layers: &mut Layers, asks: bool) -> Result<String, CliError> {
    let Question { key, default, .. } = question;
    if let Some(given) = &question.given {
        layers.set_from_command(key, given)?;
        layers.check(key)?;
        return Ok(given.clone());
    }
    loop {
        let said = if asks { ask(question)? } else { String::new() };
        let value = if said.is_empty() {
            default.clone()
        } else {
            said
        };
        layers.set_from_command(key, &value)?;
        let checked = layers.check(key);
        match checked {
            Err(error) if asks => note(error),
            _ if value.is_empty() && *key == "mail.from" && asks => {
                note("Mails need it; Ctrl-C ends this without a file.");
            }
            checked => return checked.map(|()| value).map_err(CliError::from),
        }
    }
}

/// Asks on standard error, because standard output holds only the document.
fn ask(question: &Question) -> Result<String, CliError> {
    let Question { text, default, .. } = question;
    let shown = match default.is_empty() {
        true => String::new(),
        false => format!(" [{default}]"),
    };
    eprint!("{text}{shown}\n> ");
    let _ = io::stderr().flush();
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(0) => Err(CliError::Failed(
            "the answers ended early; nothing was written".to_owned(),
        )),
        Ok(_) => Ok(line.trim().to_owned()),
        Err(error) => Err(CliError::Failed(format!(
            "the answer cannot be read ({error}); nothing was written"
        ))),
    }
}

/// The key of the replaced configuration, without which stored secrets cannot be opened.
fn key_of(file: &Path) -> Option<String> {
    let there = file.exists().then(|| Layers::load(Some(file), []).ok())??;
    Some(there.text("secrets.key")).filter(|key| !key.is_empty())
}

fn token() -> String {
    let characters = rand::rng().sample_iter(Alphanumeric).take(TOKEN_CHARS);
    characters.map(char::from).collect()
}

/// The file in sections. JSON strings are valid TOML strings.
fn document(keys: &[(&str, String)]) -> String {
    let mut text = "\
# Made by `dikala init`. `dikala config show` lists every key there is, with what is in force.
#
# This file holds secrets and is its owner's alone. Without secrets.key nothing that is sealed in the database opens again: keep a
# copy of it, apart from the copies of the database.
"
    .to_owned();
    for section in ["http", "operator", "database", "secrets", "mail"] {
        let of_it = keys.iter().filter_map(|(key, value)| {
            let name = key.strip_prefix(section)?.strip_prefix('.')?;
            Some(format!("{name} = {}\n", json!(value)))
        });
        let lines: String = of_it.collect();
        if !lines.is_empty() {
            text.push_str(&format!("\n[{section}]\n{lines}"));
        }
    }
    text
}

/// Writes the file atomically. An existing file is renamed first; its new name is returned.
fn write(target: &Path, text: &str) -> Result<Option<PathBuf>, CliError> {
    let put = || -> io::Result<Option<PathBuf>> {
        let folder = target.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        // `NamedTempFile` creates files that only the owner may read.
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        if !target.exists() {
            // Does not overwrite a file that appeared meanwhile.
            file.persist_noclobber(target)
                .map_err(|error| error.error)?;
            return Ok(None);
        }
        let kept = before(target);
        fs::hard_link(target, &kept)?;
        file.persist(target).map_err(|error| error.error)?;
        Ok(Some(kept))
    };
    put().map_err(|error| unwritable(target, &error))
}

/// The name for a file that is being replaced.
fn before(target: &Path) -> PathBuf {
    let moment = SystemClock.now().to_string();
    let moment = moment.chars().filter(char::is_ascii_alphanumeric);
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".before-{}", moment.collect::<String>()));
    name.into()
}

fn told(target: &Path, kept: Option<&Path>, as_json: bool) -> Result<(), CliError> {
    let named = quoted(target);
    let next = ["check", "serve"].map(|command| format!("dikala {command} --config {named}"));
    if as_json {
        let document = json!({"file": target, "kept": kept, "next": next});
        return output::text(&document.to_string());
    }
    let kept = kept.map_or_else(String::new, |kept| {
        format!(
            "\nWhat was there is kept as {}; its secrets.key goes on.",
            kept.display()
        )
    });
    output::text(&format!(
        "{} is written, for its owner alone: it holds the operators' tokens, and secrets.key, of which to keep a copy.{kept}

Next:
  {}
  {}",
        target.display(),
        next[0],
        next[1]
    ))
}

/// A path quoted for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    if text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::Failed(format!(
        "{} cannot be written: {error}; name another file with --config",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_it_was_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("a file.toml");
        let from = r#""Kopi \ Senja" <no-reply@example.com>"#;
        let keys = [
            ("mail.url", "smtp://mail.example.com".to_owned()),
            ("mail.from", from.to_owned()),
        ];
        assert_eq!(write(&target, &document(&keys)).expect("written"), None);
        let layers = Layers::load(Some(&target), []).expect("read");
        assert_eq!(layers.text("mail.from"), from);
        assert!(!document(&keys).contains("[http]"));
    }

    #[test]
    fn a_path_is_quoted_where_a_shell_would_take_it_apart() {
        for (path, shown) in [
            ("/etc/dikala/dikala.toml", "/etc/dikala/dikala.toml"),
            ("/my files/d.toml", "'/my files/d.toml'"),
            ("/it's", r"'/it'\''s'"),
        ] {
            assert_eq!(quoted(Path::new(path)), shown);
        }
    }
}
