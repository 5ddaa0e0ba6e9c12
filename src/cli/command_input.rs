//! Input of commands: options become the fields of an operation's input, and its errors are worded for the options.

use std::str::FromStr;

use clap::Args;
use serde_json::{Map, Value};

use super::CliError;
use crate::http::{
    error::{ApiError, Missing},
    extract::{FormFields, Id, OperatorQuery, RequestBody},
    field::{FieldCode, FieldError},
};

/// Which piece of a list is shown.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// How many are shown, at most 100.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) limit: u32,
    /// How many are left out before those.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) offset: u64,
}

/// A command's input, for an operation.
#[derive(Debug, Default)]
pub struct CommandInput {
    /// The kind of the thing that the command concerns, such as a call, and its id.
    of: Option<(&'static str, String)>,
    /// Option, parameter and value.
    options: Vec<(&'static str, &'static str, Value)>,
}

impl CommandInput {
    /// Concerns the thing of kind `what` with this id.
    pub fn of(what: &'static str, id: &str) -> Self {
        Self {
            of: Some((what, id.to_owned())),
            options: Vec::new(),
        }
    }

    /// Adds an option's value if it was given. The option `--tenant` sets the parameter `tenantId`.
    pub fn with(
        mut self,
        option: &'static str,
        parameter: &'static str,
        value: Option<impl Into<Value>>,
    ) -> Self {
        self.options
            .extend(value.map(|value| (option, parameter, value.into())));
        self
    }

    /// Adds the page's limit and offset.
    pub fn page(self, page: PageArgs) -> Self {
        self.with("--limit", "limit", Some(page.limit.to_string()))
            .with("--offset", "offset", Some(page.offset.to_string()))
    }

    fn fields(&self) -> Value {
        let field =
            |(_, parameter, value): &(_, &str, Value)| ((*parameter).to_owned(), value.clone());
        let fields: Map<String, Value> = self.options.iter().map(field).collect();
        Value::Object(fields)
    }

    /// The options as fields.
    pub fn form(&self) -> FormFields {
        FormFields::from_body(self.fields()).expect("it is an object")
    }

    /// The options as the input of an operation that changes something.
    pub fn body(&self) -> RequestBody {
        RequestBody::of(self.fields())
    }

    /// The options as the parameters of a list.
    pub fn query(&self) -> OperatorQuery {
        OperatorQuery(self.form())
    }

    /// The id of the thing. A malformed one is not found.
    pub fn id<T: FromStr>(&self) -> Result<Id<T>, CliError> {
        let (what, id) = self.of.as_ref().expect("the command concerns a thing");
        let parsed = id.parse().map(Id);
        parsed.map_err(|_| not_found(what, id))
    }

    /// The id, if the command concerns a thing.
    pub fn optional_id<T: FromStr>(&self) -> Result<Option<Id<T>>, CliError> {
        self.of.as_ref().map(|_| self.id()).transpose()
    }

    /// The output of an operation, or the command's error.
    pub fn outcome<T>(&self, outcome: Result<T, ApiError>) -> Result<T, CliError> {
        outcome.map_err(|error| self.refused(error))
    }

    /// The command's error for an operation's.
    pub fn refused(&self, error: ApiError) -> CliError {
        match (&error, &self.of) {
            (ApiError::NotFound(missing), Some((what, id))) if named(*missing) == Some(*what) => {
                not_found(what, id)
            }
            (ApiError::Validation(faults), _) => {
                let missing = faults.iter().find_map(|fault| self.missing(fault));
                missing.unwrap_or_else(|| {
                    let faults: Vec<String> =
                        faults.iter().map(|fault| self.in_options(fault)).collect();
                    CliError::Refused(faults.join(" "))
                })
            }
            (ApiError::CallNotActive, Some((what, id))) => CliError::Refused(format!(
                "the {what} {id} is over; `dikala {what} list --status answered` shows those that are not"
            )),
            (ApiError::UserExists, _) => {
                let email = self.options.iter().find(|(_, name, _)| *name == "email");
                let email = email
                    .and_then(|(.., email)| email.as_str())
                    .unwrap_or_default();
                CliError::Refused(format!("{}: {error}", email.to_lowercase()))
            }
            _ => error.into(),
        }
    }

    /// The option that set the field.
    fn option_of(&self, fault: &FieldError) -> Option<&(&'static str, &'static str, Value)> {
        self.options
            .iter()
            .find(|(_, name, _)| *name == fault.field)
    }

    /// The error for an option, such as `--tenant`, with an id that nothing has.
    fn missing(&self, fault: &FieldError) -> Option<CliError> {
        let (option, _, id) = self.option_of(fault)?;
        let what = option.trim_start_matches('-');
        (fault.code == FieldCode::NotFound)
            .then(|| not_found(what, id.as_str().unwrap_or_default()))
    }

    /// A fault of a parameter, worded for the option that set it.
    fn in_options(&self, fault: &FieldError) -> String {
        let option = self.option_of(fault);
        let rest = fault.message.strip_prefix(&fault.field);
        match (option, rest) {
            (Some((option, ..)), Some(rest)) => format!("{option}{rest}"),
            (Some((option, ..)), None) => format!("{option}: {}", fault.message),
            (None, _) => fault.message.clone(),
        }
    }
}

fn not_found(what: &str, id: &str) -> CliError {
    CliError::NotFound(format!(
        "there is no {what} {id}; `dikala {what} list` shows those that are there"
    ))
}

/// The command line's word for what is missing.
fn named(missing: Missing) -> Option<&'static str> {
    match missing {
        Missing::Tenant => Some("tenant"),
        Missing::Call => Some("call"),
        Missing::Webhook => Some("webhook"),
        Missing::Delivery => Some("delivery"),
        Missing::Key => Some("key"),
        Missing::Bridge => Some("bridge"),
        Missing::PhoneNumber => Some("number"),
        Missing::User => Some("user"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        http::extract::{id, word},
        operations::PageRange,
    };
    use dikala_entities::{CallStatus, TenantId};

    #[test]
    fn what_is_wrong_is_told_of_the_option() {
        let input = CommandInput::default()
            .with("--tenant", "tenantId", Some("nobody".to_owned()))
            .with("--status", "status", Some("tired".to_owned()))
            .page(PageArgs {
                limit: 1_000,
                offset: 0,
            });
        let read = input.form().read(&[], |form| {
            let _: Option<TenantId> = form.optional("tenantId", None, id("a tenant"));
            let _: Option<CallStatus> = form.optional("status", None, word("a status"));
            Some(PageRange::read(form))
        });
        let error = input.refused(read.expect_err("three faults"));
        let told = error.to_string();
        assert_eq!(error.code(), 6);
        for words in [
            "--tenant",
            "--status: \"tired\"",
            "--limit must be at most 100",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert!(!told.contains("tenantId"), "{told}");
    }

    #[test]
    fn what_is_not_there_is_named() {
        let input = CommandInput::of("call", "call_7");
        let error = input.refused(ApiError::NotFound(Missing::Call));
        assert_eq!(error.code(), 5);
        assert!(error.to_string().contains("call_7"), "{error}");
        assert_eq!(
            input.refused(ApiError::NotFound(Missing::Webhook)).code(),
            5
        );
        assert_eq!(input.refused(ApiError::CallNotActive).code(), 6);
        assert_eq!(input.refused(ApiError::Unavailable).code(), 1);
    }
}
