//! The example functions that come with an agent from a template.

use dikala_entities::{AgentId, OutboundUrl};
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::super::view::SignedIn;
use crate::{
    examples::catalogue::{ExampleFunction, of_template},
    http::{
        error::ApiError,
        extract::{Id, RequestBody},
    },
    operations::functions,
};

/// The functions that an agent from this template gets. None if functions may not have the service's own address.
pub async fn brought(
    visit: &SignedIn,
    template: &str,
) -> Result<Vec<&'static ExampleFunction>, ApiError> {
    let own = of_template(template);
    let operation = visit.operation();
    let serving = operation.serving()?;
    let endpoint = own
        .first()
        .map(|first| first.endpoint(visit.state().own_base(), visit.lang()));
    let url = endpoint.and_then(|url| OutboundUrl::parse(&url, serving.urls).ok());
    let is_allowed = match &url {
        Some(url) => {
            let outbound = &serving.node.outbound;
            outbound.check_url(visit.tenant(), url).await.is_ok()
        }
        None => false,
    };
    Ok(if is_allowed { own } else { Vec::new() })
}

/// One line about the functions of a template.
pub fn announced(visit: &SignedIn, template: &str, brought: &[&ExampleFunction]) -> Markup {
    let names: Vec<&str> = brought.iter().map(|function| function.name).collect();
    html! {
        p.hint {
            @if !names.is_empty() {
                (visit.tn("templates-functions", &[("names", names.join(", ").into())]))
            } @else if !of_template(template).is_empty() { (visit.t("templates-no-functions")) }
        }
    }
}

/// Creates the functions of a template. Each has its own entry in the audit.
pub async fn create(visit: &SignedIn, agent: AgentId, template: &str) -> Result<(), ApiError> {
    let base = visit.state().own_base();
    for function in brought(visit, template).await? {
        let (fields, schema) = function.fields(base, visit.lang());
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let body = RequestBody::with_json(&fields, "parameters", &schema);
        functions::create(visit.operation(), Id(agent), body).await?;
    }
    Ok(())
}
