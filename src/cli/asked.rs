//! Commands that run the same code as the operators' API: options become its parameters, and its errors are worded
//! for the command line.

use clap::Args;
use serde_json::{Map, Value};

use super::CliError;
use crate::{
    admin::AdminError,
    http::{
        error::{ApiError, Missing},
        extract::FormFields,
        field::FieldError,
    },
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

/// A command's parameters, for a handler of the operators' API.
#[derive(Debug, Default)]
pub struct ApiParameters {
    /// The kind of the thing that the command concerns, such as a call, and its id.
    of: Option<(&'static str, String)>,
    /// Option, parameter and value.
    options: Vec<(&'static str, &'static str, String)>,
}

impl ApiParameters {
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
        value: Option<String>,
    ) -> Self {
        self.options
            .extend(value.map(|value| (option, parameter, value)));
        self
    }

    /// Adds the page's limit and offset.
    pub fn page(self, page: PageArgs) -> Self {
        self.with("--limit", "limit", Some(page.limit.to_string()))
            .with("--offset", "offset", Some(page.offset.to_string()))
    }

    /// The parameters in the form that handlers read.
    pub fn form(&self) -> FormFields {
        let field = |(_, parameter, value): &(_, &str, String)| {
            ((*parameter).to_owned(), Value::String(value.clone()))
        };
        let fields: Map<String, Value> = self.options.iter().map(field).collect();
        FormFields::from_body(Value::Object(fields)).expect("it is an object")
    }

    /// The command's error for a refusal by the handler.
    pub fn refused(&self, error: ApiError) -> CliError {
        match (&error, &self.of) {
            (ApiError::NotFound(missing), Some((what, id))) if named(*missing) == Some(*what) => {
                AdminError::not_found(what, id).into()
            }
            (ApiError::NotFound(_), _) => CliError::NotFound(error.to_string()),
            (ApiError::Validation(faults), _) => {
                let told: Vec<String> = faults.iter().map(|fault| self.in_options(fault)).collect();
                CliError::Refused(told.join(" "))
            }
            _ if (400..500).contains(&error.code().status()) => {
                CliError::Refused(error.to_string())
            }
            _ => CliError::Failed(format!(
                "the database does not answer as it should: {error}"
            )),
        }
    }

    /// A fault of a parameter, worded for the option that set it.
    fn in_options(&self, fault: &FieldError) -> String {
        let option = self
            .options
            .iter()
            .find(|(_, name, _)| *name == fault.field);
        let rest = fault.message.strip_prefix(&fault.field);
        match (option, rest) {
            (Some((option, ..)), Some(rest)) => format!("{option}{rest}"),
            (Some((option, ..)), None) => format!("{option}: {}", fault.message),
            (None, _) => fault.message.clone(),
        }
    }
}

/// The command line's word for what is missing.
fn named(missing: Missing) -> Option<&'static str> {
    match missing {
        Missing::Tenant => Some("tenant"),
        Missing::Call => Some("call"),
        Missing::Webhook => Some("webhook"),
        Missing::Delivery => Some("delivery"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::PageRange,
        http::extract::{id, word},
    };
    use dikala_entities::{CallStatus, TenantId};

    #[test]
    fn what_is_wrong_is_told_of_the_option() {
        let asked = ApiParameters::default()
            .with("--tenant", "tenantId", Some("nobody".to_owned()))
            .with("--status", "status", Some("tired".to_owned()))
            .page(PageArgs {
                limit: 1_000,
                offset: 0,
            });
        let read = asked.form().read(&[], |form| {
            let _: Option<TenantId> = form.optional("tenantId", None, id("a tenant"));
            let _: Option<CallStatus> = form.optional("status", None, word("a status"));
            Some(PageRange::read(form))
        });
        let error = asked.refused(read.expect_err("three faults"));
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
        let asked = ApiParameters::of("call", "call_7");
        let error = asked.refused(ApiError::NotFound(Missing::Call));
        assert_eq!(error.code(), 5);
        assert!(error.to_string().contains("call_7"), "{error}");
        assert_eq!(
            asked.refused(ApiError::NotFound(Missing::Webhook)).code(),
            5
        );
        assert_eq!(asked.refused(ApiError::CallNotActive).code(), 6);
        assert_eq!(asked.refused(ApiError::Unavailable).code(), 1);
    }
}
