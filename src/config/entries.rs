//! The keys of the configuration with their effective values and origins.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use config::{Config, Value, ValueKind};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    mask::{MASK, without_passwords, without_user},
    telephony,
};

/// Keys whose values are masked.
const SECRET_KEYS: &[&str] = &[
    "secrets.key",
    "secrets.old_keys",
    "operator.token",
    "operator.read_token",
    "telephony.gemini.api_key",
    "telephony.openai.api_key",
    "telephony.pipeline.stt.api_key",
    "telephony.pipeline.llm.api_key",
    "telephony.pipeline.tts.api_key",
];

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigOrigin {
    Default,
    File(String),
    Variable(String),
    /// Set by the command itself, for example `dikala dev`.
    Command,
}

impl fmt::Display for ConfigOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => f.write_str(path),
            Self::Variable(name) => f.write_str(name),
            Self::Command => f.write_str("command line"),
        }
    }
}

/// A key with its effective value.
#[derive(Clone, Debug)]
pub struct ConfigEntry {
    pub key: String,
    pub(super) value: ValueKind,
    /// Gives the type that the value must have.
    pub(super) default: ValueKind,
    pub origin: ConfigOrigin,
}

/// A key in displayable form.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ConfigurationKey)]
pub struct ConfigurationKey {
    pub key: String,
    /// Secrets are masked.
    pub value: String,
    /// `default`, the file, the variable, or `command line`.
    pub origin: String,
}

impl From<&ConfigEntry> for ConfigurationKey {
    fn from(entry: &ConfigEntry) -> Self {
        Self {
            key: entry.key.clone(),
            value: entry.shown(),
            origin: entry.origin.to_string(),
        }
    }
}

impl ConfigEntry {
    /// The value in displayable form: secrets are masked.
    pub fn shown(&self) -> String {
        let text = written(&self.value);
        if text.is_empty() {
            String::new()
        } else if SECRET_KEYS.contains(&self.key.as_str()) {
            MASK.to_owned()
        } else if self.key == "mail.url" {
            // The user is masked too: some providers repeat a password token there.
            without_passwords(&without_user(&text))
        } else {
            without_passwords(&text)
        }
    }

    /// The beginning of a sentence: `log.level is "loud" (DIKALA_LOG__LEVEL)`.
    pub fn told(&self) -> String {
        let value = match &self.value {
            ValueKind::String(_) => format!("{:?}", self.shown()),
            _ => self.shown(),
        };
        format!("{} is {value} ({})", self.key, self.origin)
    }
}

fn written(value: &ValueKind) -> String {
    match value {
        ValueKind::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| written(&item.kind)).collect();
            items.join(",")
        }
        ValueKind::Table(table) => telephony::shown(table),
        ValueKind::Nil => String::new(),
        other => other.to_string(),
    }
}

/// All keys with their effective values.
#[derive(Clone, Debug)]
pub struct Layers(pub(super) BTreeMap<String, ConfigEntry>);

impl Layers {
    /// The beginning of a sentence: `log.level is "loud" (DIKALA_LOG__LEVEL)`.
    pub fn told(&self, key: &str) -> String {
        self.0
            .get(key)
            .map_or_else(|| key.to_owned(), ConfigEntry::told)
    }

    /// The value of a key as text; empty if it is not set.
    pub fn text(&self, key: &str) -> String {
        self.0
            .get(key)
            .map_or_else(String::new, |entry| written(&entry.value))
    }

    /// True if the key is set, but its value could not be read.
    pub(super) fn is_unread(&self, key: &str) -> bool {
        let entry = self.0.get(key);
        entry.is_some_and(|entry| matches!(entry.value, ValueKind::Nil))
    }

    /// The origin of a key's value.
    pub fn origin(&self, key: &str) -> &ConfigOrigin {
        self.0
            .get(key)
            .map_or(&ConfigOrigin::Default, |entry| &entry.origin)
    }

    /// The folder of the file that sets a key; empty, which is the present folder, if no file does.
    pub(super) fn folder_of(&self, key: &str) -> PathBuf {
        match self.origin(key) {
            ConfigOrigin::File(path) => {
                let folder = Path::new(path).parent();
                folder.map(Path::to_owned).unwrap_or_default()
            }
            _ => PathBuf::new(),
        }
    }

    /// The effective values, for deserialisation.
    pub fn to_config(&self) -> Result<Config, config::ConfigError> {
        let mut builder = Config::builder();
        for entry in self.0.values() {
            let empty = matches!(&entry.value, ValueKind::String(text) if text.is_empty());
            if !empty {
                builder = builder
                    .set_override(entry.key.as_str(), Value::new(None, entry.value.clone()))?;
            }
        }
        builder.build()
    }
}
