//! The keys of the configuration with their effective values, each with where it came from.

use std::{collections::BTreeMap, fmt};

use config::{Config, Value, ValueKind};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    mask::{MASK, without_passwords, without_user},
    telephony,
};

/// Keys whose values are never shown.
const SECRET_KEYS: &[&str] = &[
    "secrets.key",
    "secrets.old_keys",
    "operator.token",
    "operator.read_token",
    "telephony.gemini.api_key",
];

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    File(String),
    Variable(String),
    /// Set by the command itself, as `dikala dev` does.
    Command,
}

impl fmt::Display for Origin {
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
pub struct Entry {
    pub key: String,
    pub(super) value: ValueKind,
    /// The default has the type that the value needs.
    pub(super) default: ValueKind,
    pub origin: Origin,
}

/// A key as a person may see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ConfigurationKey)]
pub struct Shown {
    pub key: String,
    /// Secrets are masked.
    pub value: String,
    /// `default`, the file, the variable, or `command line`.
    pub origin: String,
}

impl From<&Entry> for Shown {
    fn from(entry: &Entry) -> Self {
        Self {
            key: entry.key.clone(),
            value: entry.shown(),
            origin: entry.origin.to_string(),
        }
    }
}

impl Entry {
    /// The value as a person may see it: secrets are masked.
    pub fn shown(&self) -> String {
        let text = written(&self.value);
        if text.is_empty() {
            String::new()
        } else if SECRET_KEYS.contains(&self.key.as_str()) {
            MASK.to_owned()
        } else if self.key == "mail.url" {
            // Where a password is a token, providers take it for the user as well.
            without_passwords(&without_user(&text))
        } else {
            without_passwords(&text)
        }
    }

    /// `log.level is "loud" (DIKALA_LOG__LEVEL)`, for a sentence that goes on.
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
pub struct Layers(pub(super) BTreeMap<String, Entry>);

impl Layers {
    /// `log.level is "loud" (DIKALA_LOG__LEVEL)`, for a sentence that goes on.
    pub fn told(&self, key: &str) -> String {
        self.0.get(key).map_or_else(|| key.to_owned(), Entry::told)
    }

    /// The value of a key as a text; empty where it is not set.
    pub fn text(&self, key: &str) -> String {
        self.0
            .get(key)
            .map_or_else(String::new, |entry| written(&entry.value))
    }

    /// Whether a key is set to what could not be read.
    pub(super) fn is_unread(&self, key: &str) -> bool {
        let entry = self.0.get(key);
        entry.is_some_and(|entry| matches!(entry.value, ValueKind::Nil))
    }

    /// Where the value of a key came from.
    pub fn origin(&self, key: &str) -> &Origin {
        self.0
            .get(key)
            .map_or(&Origin::Default, |entry| &entry.origin)
    }

    /// The effective values, ready to be deserialised.
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
