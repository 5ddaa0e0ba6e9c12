//! Layers of configuration: the compiled-in defaults, a file, the environment. Pure except for reading the named
//! files.
//!
//! The crate `config` parses the files; merging is our own, because the crate stops at the first fault, accepts
//! unknown keys and maps variables to keys by a rule only. This module reports all faults at once, each with its
//! origin, and suggests the closest key for an unknown one. A variable `…_FILE` names a file that holds a secret.

use std::{collections::BTreeMap, path::Path};

use config::{Config, File, FileFormat, Value, ValueKind};

use super::{
    ConfigError, checks,
    entries::{ConfigEntry, ConfigOrigin, Layers},
    telephony::{LISTEN, TRUNKS},
};

const DEFAULTS: &str = include_str!("../../config/default.toml");
const PREFIX: &str = "DIKALA_";
/// Variables with the prefix that are no configuration keys: the path of the file, and options of client commands.
/// Nor are those of [`TESTS`].
const NO_KEYS: &[&str] = &[
    "DIKALA_CONFIG",
    "DIKALA_URL",
    "DIKALA_API_KEY",
    "DIKALA_BRIDGE_TOKEN",
    "DIKALA_OPERATORS_URL",
    "DIKALA_OPERATORS_TOKEN",
    "DIKALA_COMMIT",
];
/// Beginnings of variables that tests read, and pass on to the services that they start.
const TESTS: &[&str] = &[
    "DIKALA_ENDURANCE_",
    "DIKALA_FAULTS",
    "DIKALA_REQUIRE_",
    "DIKALA_SIMULATION_",
];
/// The only variables without the prefix: the usual names of API keys, and their configuration keys.
const API_KEYS: [(&str, &str); 2] = [
    ("GEMINI_API_KEY", "telephony.gemini.api_key"),
    ("OPENAI_API_KEY", "telephony.openai.api_key"),
];

impl Layers {
    /// Merges the layers. Only variables `DIKALA_…` of `environment` are used.
    ///
    /// Errors: unknown keys and unreadable files, together with all other faults.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut environment: BTreeMap<String, String> = environment
            .into_iter()
            .filter(|(name, _)| {
                name.starts_with(PREFIX) || API_KEYS.iter().any(|(variable, _)| name == variable)
            })
            .collect();
        let api_keys =
            API_KEYS.map(|(variable, key)| (variable, key, environment.remove(variable)));
        let file = file.map(|path| path.display().to_string()).or_else(|| {
            environment
                .get("DIKALA_CONFIG")
                .filter(|path| !path.is_empty())
                .cloned()
        });
        let mut layers = Self::defaults();
        let mut faults = Vec::new();
        if let Some(path) = file {
            layers.add_file(&path, &mut faults);
        }
        for (name, value) in environment {
            faults.extend(layers.add_variable(&name, &value).err());
        }
        for (variable, key, value) in api_keys {
            if let Some(value) = value
                && layers.text(key).is_empty()
                && !layers.is_unread(key)
            {
                let origin = ConfigOrigin::Variable(variable.to_owned());
                let place = || format!("the environment variable {variable}");
                faults.extend(layers.set_text(key, &value, origin, place).err());
            }
        }
        if !faults.is_empty() {
            faults.extend(checks::faults(&layers));
        }
        ConfigError::all(faults)?;
        Ok(layers)
    }

    fn defaults() -> Self {
        let parsed = parse(DEFAULTS).expect("config/default.toml is checked by a test");
        let entry = |(key, value): (String, Value)| {
            let entry = ConfigEntry {
                key: key.clone(),
                value: value.kind.clone(),
                default: value.kind,
                origin: ConfigOrigin::Default,
            };
            (key, entry)
        };
        Self(parsed.into_iter().map(entry).collect())
    }

    fn add_file(&mut self, path: &str, faults: &mut Vec<ConfigError>) {
        let read = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot be read: {error}"))
            .and_then(|text| {
                parse(&text)
                    .map_err(|error| format!("is not valid TOML: {}", without_excerpt(&error)))
            });
        let parsed = match read {
            Ok(parsed) => parsed,
            Err(fault) => {
                faults.push(ConfigError(format!(
                    "the configuration file {path} {fault}"
                )));
                return;
            }
        };
        for (key, value) in parsed {
            let place = || format!("the configuration file {path}");
            let origin = ConfigOrigin::File(path.to_owned());
            let set = match value.kind {
                // The same form as in the environment.
                ValueKind::String(text) if key == LISTEN => {
                    self.set_text(&key, &text, origin, place)
                }
                kind => self.set(&key, kind, origin, place),
            };
            faults.extend(set.err());
        }
    }

    fn add_variable(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        if NO_KEYS.contains(&name) || TESTS.iter().any(|test| name.starts_with(test)) {
            return Ok(());
        }
        let key = name[PREFIX.len()..].to_lowercase().replace("__", ".");
        let origin = ConfigOrigin::Variable(name.to_owned());
        let place = || format!("the environment variable {name}");
        if !self.0.contains_key(&key)
            && let Some(key) = key.strip_suffix("_file")
            && self.0.contains_key(key)
        {
            if value.is_empty() {
                return Ok(());
            }
            let text = match std::fs::read_to_string(value) {
                Ok(text) => text,
                Err(error) => {
                    // The key is set, but its value is unknown.
                    self.set(key, ValueKind::Nil, origin, place)?;
                    return Err(ConfigError(format!(
                        "{} names the file {value:?}, which cannot be read: {error}",
                        place()
                    )));
                }
            };
            return self.set_text(key, text.trim_end_matches(['\r', '\n']), origin, place);
        }
        self.set_text(&key, value, origin, place)
    }

    /// Sets a key from a command.
    pub fn set_from_command(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        self.set_text(key, value, ConfigOrigin::Command, || {
            "the command line".to_owned()
        })
    }

    /// Replaces the trunks by one that accepts calls from these addresses.
    pub fn set_trunk_from_command(
        &mut self,
        name: &str,
        addresses: &[&str],
    ) -> Result<(), ConfigError> {
        let addresses: Vec<Value> = addresses.iter().map(|one| Value::from(*one)).collect();
        let fields = [
            ("name", Value::from(name)),
            ("addresses", Value::from(addresses)),
            // A softphone would be referred to itself.
            ("transfer", Value::from("bridge")),
        ];
        let fields = fields.map(|(field, value)| (field.to_owned(), value));
        let trunk = Value::new(None, ValueKind::Table(fields.into_iter().collect()));
        let trunks = ValueKind::Array(vec![trunk]);
        self.set(TRUNKS, trunks, ConfigOrigin::Command, || {
            "the command line".to_owned()
        })
    }

    fn set_text(
        &mut self,
        key: &str,
        text: &str,
        origin: ConfigOrigin,
        place: impl Fn() -> String,
    ) -> Result<(), ConfigError> {
        // A list in a text is comma-separated; everything else is converted when it is deserialised.
        let is_list = matches!(
            self.0.get(key).map(|entry| &entry.value),
            Some(ValueKind::Array(_))
        );
        let value = if is_list {
            let items = text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            ValueKind::Array(items.map(Value::from).collect())
        } else {
            ValueKind::String(text.to_owned())
        };
        self.set(key, value, origin, place)
    }

    fn set(
        &mut self,
        key: &str,
        value: ValueKind,
        origin: ConfigOrigin,
        place: impl Fn() -> String,
    ) -> Result<(), ConfigError> {
        match self.0.get_mut(key) {
            Some(entry) => {
                entry.value = value;
                entry.origin = origin;
                Ok(())
            }
            None => Err(ConfigError(self.unknown(key, &place()))),
        }
    }

    fn unknown(&self, key: &str, place: &str) -> String {
        let near = self
            .0
            .keys()
            .map(|known| (strsim::damerau_levenshtein(known, key), known))
            .min()
            .filter(|(distance, known)| *distance <= 3 + key.len() / 4 || known.starts_with(key));
        let hint = match near {
            Some((_, known)) => format!("did you mean {known}?"),
            None => "`dikala config show` lists all keys".to_owned(),
        };
        format!("{place} sets {key}, which is no key of the configuration; {hint}")
    }

    /// Every key, in the order of the documentation.
    pub fn entries(&self) -> impl Iterator<Item = &ConfigEntry> {
        documented().into_iter().filter_map(|key| self.0.get(&key))
    }
}

fn documented() -> Vec<String> {
    let mut section = "";
    let mut keys = Vec::new();
    for line in DEFAULTS.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((name, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            keys.push(format!("{section}.{name}"));
        }
    }
    keys
}

/// One line, without the excerpt of the file, which may show a secret.
fn without_excerpt(error: &config::ConfigError) -> String {
    let text = error.to_string();
    let is_excerpt = |line: &&str| {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        rest.starts_with('|')
    };
    let lines = text.lines().filter(|line| !is_excerpt(line));
    lines.collect::<Vec<_>>().join(": ")
}

/// Parses TOML into dotted keys.
fn parse(text: &str) -> Result<Vec<(String, Value)>, config::ConfigError> {
    let parsed = Config::builder()
        .add_source(File::from_str(text, FileFormat::Toml))
        .build()?;
    let mut keys = Vec::new();
    flatten("", parsed.cache, &mut keys);
    Ok(keys)
}

fn flatten(path: &str, value: Value, keys: &mut Vec<(String, Value)>) {
    match value.kind {
        ValueKind::Table(table) => {
            for (name, value) in table {
                let path = if path.is_empty() {
                    name
                } else {
                    format!("{path}.{name}")
                };
                flatten(&path, value, keys);
            }
        }
        _ => keys.push((path.to_owned(), value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(variables: &[(&str, &str)]) -> Result<Layers, ConfigError> {
        let owned = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Layers::load(None, owned)
    }

    fn shown(layers: &Layers, key: &str) -> (String, ConfigOrigin) {
        let entry = layers
            .entries()
            .find(|entry| entry.key == key)
            .expect("the key is known");
        (entry.shown(), entry.origin.clone())
    }

    #[test]
    fn the_environment_wins_over_the_file_and_the_file_over_the_default() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("dikala.toml");
        std::fs::write(
            &file,
            "[http]\nlisten = \"127.0.0.1:1\"\nshutdown_seconds = 7\n",
        )
        .expect("written");
        let variables = [("DIKALA_HTTP__LISTEN".to_owned(), "127.0.0.1:2".to_owned())];
        let layers = Layers::load(Some(&file), variables).expect("loads");
        let path = ConfigOrigin::File(file.display().to_string());
        assert_eq!(
            shown(&layers, "http.listen"),
            (
                "127.0.0.1:2".into(),
                ConfigOrigin::Variable("DIKALA_HTTP__LISTEN".into())
            )
        );
        assert_eq!(shown(&layers, "http.shutdown_seconds"), ("7".into(), path));
        assert_eq!(
            shown(&layers, "database.migrate"),
            ("true".into(), ConfigOrigin::Default)
        );
    }

    #[test]
    fn an_unknown_key_is_refused_with_a_suggestion() {
        let error = layers(&[("DIKALA_HTTP__LISTN", "x")]).expect_err("unknown");
        assert!(
            error.0.contains("DIKALA_HTTP__LISTN") && error.0.contains("http.listen"),
            "{error}"
        );
        let error = layers(&[("DIKALA_NONSENSE_ALTOGETHER", "x")]).expect_err("unknown");
        assert!(error.0.contains("config show"), "{error}");
    }

    #[test]
    fn every_key_is_listed_where_it_is_documented() {
        let layers = layers(&[]).expect("the defaults");
        assert_eq!(layers.entries().count(), layers.0.len());
        assert_eq!(
            layers.entries().next().map(|entry| entry.key.as_str()),
            Some("http.listen")
        );
    }

    #[test]
    fn all_unknown_keys_are_named_at_once() {
        let error = layers(&[("DIKALA_HTTP__LISTN", "x"), ("DIKALA_LOG__LEVL", "x")]);
        let error = error.expect_err("unknown").0;
        assert!(
            error.contains("http.listen") && error.contains("log.level"),
            "{error}"
        );
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_whatever_kind_it_is() {
        let error = layers(&[
            ("DIKALA_CONFIG", "/nowhere/dikala.toml"),
            ("DIKALA_SECRETS__KEY_FILE", "/nowhere/key"),
            ("DIKALA_HTTP__LISTN", "x"),
            ("DIKALA_LOG__LEVEL", "loud"),
            ("DIKALA_OPERATOR__LISTEN", "0.0.0.0:9090"),
        ]);
        let error = error.expect_err("five faults").0;
        for words in [
            "/nowhere/dikala.toml",
            "/nowhere/key",
            "http.listen",
            "loud",
            "operator.token is not set",
        ] {
            assert!(error.contains(words), "{words}: {error}");
        }
        assert_eq!(error.lines().count(), 5, "{error}");
        // A token that could not be read does not count as missing.
        let error = layers(&[
            ("DIKALA_OPERATOR__LISTEN", "0.0.0.0:9090"),
            ("DIKALA_OPERATOR__TOKEN_FILE", "/nowhere/token"),
            ("DIKALA_HTTP__SHUTDOWN_SECONDS_FILE", "/nowhere/seconds"),
        ]);
        let error = error.expect_err("two faults").0;
        assert_eq!(error.lines().count(), 2, "{error}");
    }

    #[test]
    fn a_file_that_is_no_toml_is_one_line_without_what_it_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("dikala.toml");
        std::fs::write(&file, "[secrets]\nkey = \"c2VjcmV0\n").expect("written");
        let error = Layers::load(Some(&file), []).expect_err("no TOML").0;
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(
            error.contains("line 2") && !error.contains("c2VjcmV0"),
            "{error}"
        );
    }

    #[test]
    fn a_file_without_a_name_is_none() {
        let variables = [
            ("DIKALA_SECRETS__KEY", "c2VjcmV0"),
            ("DIKALA_SECRETS__KEY_FILE", ""),
        ];
        let layers = layers(&variables).expect("loads");
        assert_eq!(layers.text("secrets.key"), "c2VjcmV0");
    }

    #[test]
    fn what_clients_are_told_is_no_key() {
        let variables = [
            "DIKALA_URL",
            "DIKALA_API_KEY",
            "DIKALA_BRIDGE_TOKEN",
            "DIKALA_OPERATORS_URL",
            "DIKALA_OPERATORS_TOKEN",
        ];
        assert!(layers(&variables.map(|name| (name, "x"))).is_ok());
    }

    #[test]
    fn lists_are_comma_separated_and_secrets_are_read_from_files_and_masked() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("key");
        std::fs::write(&file, "c2VjcmV0\n").expect("written");
        let layers = layers(&[
            ("DIKALA_OUTBOUND__ALLOW_CIDRS", "127.0.0.0/8, 10.0.0.0/8"),
            ("DIKALA_SECRETS__KEY_FILE", file.to_str().expect("utf-8")),
            (
                "DIKALA_DATABASE__URL",
                "postgres://me:hush@localhost/dikala",
            ),
            ("DIKALA_REQUIRE_PATRONI", "1"),
            ("DIKALA_ENDURANCE_MINUTES", "10"),
            ("PATH", "/bin"),
        ])
        .expect("loads");
        assert_eq!(
            shown(&layers, "outbound.allow_cidrs").0,
            "127.0.0.0/8,10.0.0.0/8"
        );
        assert_eq!(shown(&layers, "secrets.key").0, "********");
        assert_eq!(
            shown(&layers, "database.url").0,
            "postgres://me:********@localhost/dikala"
        );
        let key: String = layers
            .to_config()
            .and_then(|c| c.get("secrets.key"))
            .expect("is set");
        assert_eq!(key, "c2VjcmV0");
    }
}
