//! Errors of commands and their exit codes.

use dikala_entities::store::in_words;
use sea_orm::DbErr;
use serde_json::json;

use super::{escapes::escaped, note::note};
use crate::{app::ServiceStartError, config::ConfigError, http::error::ApiError};

#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Refused(String),
    /// The error has been printed already.
    #[error("")]
    Shown,
}

impl CliError {
    pub fn code(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::Shown => 1,
            Self::Usage(_) => 2,
            Self::Config(_) => 3,
            Self::NotFound(_) => 5,
            Self::Refused(_) => 6,
        }
    }

    /// Prints the error on standard error, as a sentence or as JSON.
    pub fn print(&self, as_json: bool) {
        if matches!(self, Self::Shown) {
            return;
        }
        if as_json {
            let error = json!({"error": {"code": self.word(), "message": self.to_string()}});
            note(format_args!("{}", escaped(&error.to_string())));
        } else {
            note(format_args!("dikala: {}", escaped(&self.to_string())));
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Failed(_) | Self::Shown => "failed",
            Self::Usage(_) => "usage",
            Self::Config(_) => "configuration_invalid",
            Self::NotFound(_) => "not_found",
            Self::Refused(_) => "refused",
        }
    }
}

impl From<DbErr> for CliError {
    fn from(error: DbErr) -> Self {
        Self::Failed(format!(
            "the database does not answer: {}",
            in_words(&error)
        ))
    }
}

impl From<ApiError> for CliError {
    fn from(error: ApiError) -> Self {
        let sentence = error.to_string();
        match error.code().exit_code() {
            // Another key in the configuration helps.
            _ if matches!(error, ApiError::Unreadable(_)) => Self::Refused(sentence),
            _ if matches!(error, ApiError::OutcomeUnknown) => Self::Failed(
                "the database did not answer whether the change was made; look before you repeat the command"
                    .to_owned(),
            ),
            5 => Self::NotFound(sentence),
            6 => Self::Refused(sentence),
            _ => Self::Failed(format!(
                "the database does not answer as it should: {sentence}"
            )),
        }
    }
}

impl From<ServiceStartError> for CliError {
    fn from(error: ServiceStartError) -> Self {
        match error {
            ServiceStartError::WrongKey
            | ServiceStartError::MissingKey
            | ServiceStartError::Config(_) => Self::Config(ConfigError(error.to_string())),
            _ => Self::Failed(error.to_string()),
        }
    }
}
