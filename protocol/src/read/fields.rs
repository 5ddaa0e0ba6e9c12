//! Reads the fields of a message.

use std::str::FromStr;

use dikala_entities::{CallId, HangupReason, Millis, TraceParent};
use serde_json::{Map, Value};

use crate::reply::{ErrorCode, ReplyError};

/// Reads fields and reports the first invalid one. `null` counts as absent.
pub(super) struct MessageFields<'a>(pub(super) &'a Map<String, Value>);

impl<'a> MessageFields<'a> {
    pub(super) fn optional(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn optional_text(
        &self,
        name: &str,
        least: usize,
        most: usize,
    ) -> Result<Option<&'a str>, ReplyError> {
        let Some(value) = self.optional(name) else {
            return Ok(None);
        };
        let text = value
            .as_str()
            .ok_or_else(|| ReplyError::invalid(format!("{name} must be a text.")))?;
        if (least..=most).contains(&text.chars().count()) {
            Ok(Some(text))
        } else {
            Err(ReplyError::invalid(format!(
                "{name} must have {least} to {most} characters."
            )))
        }
    }

    pub(super) fn text(
        &self,
        name: &str,
        least: usize,
        most: usize,
    ) -> Result<&'a str, ReplyError> {
        self.optional_text(name, least, most)?
            .ok_or_else(|| missing(name))
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, ReplyError> {
        match self.optional(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(ReplyError::invalid(format!("{name} must be an object."))),
        }
    }

    pub(super) fn array(&self, name: &str) -> Result<Option<&'a Vec<Value>>, ReplyError> {
        match self.optional(name) {
            None => Ok(None),
            Some(Value::Array(array)) => Ok(Some(array)),
            Some(_) => Err(ReplyError::invalid(format!("{name} must be an array."))),
        }
    }

    /// A whole number from 0 to `most`.
    pub(super) fn whole(&self, name: &str, most: u32) -> Result<Option<u32>, ReplyError> {
        let Some(value) = self.optional(name) else {
            return Ok(None);
        };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number
            .filter(|number| *number <= most)
            .map(Some)
            .ok_or_else(|| {
                ReplyError::invalid(format!("{name} must be a whole number from 0 to {most}."))
            })
    }

    /// One of these words.
    pub(super) fn word<T: FromStr>(
        &self,
        name: &str,
        words: &[&str],
    ) -> Result<Option<T>, ReplyError> {
        let wrong = |_| {
            let words = words.join(", ");
            ReplyError::invalid(format!("{name} must be one of {words}."))
        };
        let named = self.optional_text(name, 1, 64)?;
        named.map(str::parse).transpose().map_err(wrong)
    }

    pub(super) fn instant(&self, name: &str) -> Result<Option<Millis>, ReplyError> {
        let text = self.optional_text(name, 1, 64)?;
        text.map(Millis::parse_rfc3339)
            .transpose()
            .map_err(|error| ReplyError::invalid(format!("{name} is {error}.")))
    }

    /// An invalid trace is ignored: a call is worth more than its trace.
    pub(super) fn trace(&self) -> Option<TraceParent> {
        let text = self.optional("traceparent")?.as_str()?;
        TraceParent::parse(text)
    }

    pub(super) fn call(&self) -> Result<CallId, ReplyError> {
        let text = self.text("callId", 1, 128)?;
        text.parse()
            .map_err(|_| ReplyError::of(ErrorCode::UnknownCall))
    }

    pub(super) fn reason(
        &self,
        allowed: &[HangupReason],
    ) -> Result<Option<HangupReason>, ReplyError> {
        let Some(text) = self.optional_text("reason", 1, 64)? else {
            return Ok(None);
        };
        let known = allowed
            .iter()
            .copied()
            .find(|reason| reason.as_str() == text);
        known.map(Some).ok_or_else(|| {
            let allowed: Vec<&str> = allowed.iter().map(|reason| reason.as_str()).collect();
            ReplyError::invalid(format!("reason must be one of {}.", allowed.join(", ")))
        })
    }
}

pub(super) fn missing(name: &str) -> ReplyError {
    ReplyError::invalid(format!("{name} is missing."))
}
