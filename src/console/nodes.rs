//! Nodes: the processes that serve the database.

use actix_web::HttpResponse;
use maud::{Markup, html};

use super::{layout, view::ConsoleView};
use crate::{
    http::error::ApiError,
    operator_api::system::{self, NodeStatus},
    pages::components::{Tone, notice, short_id, table},
};

/// `GET /nodes`
pub async fn show(visit: ConsoleView) -> Result<HttpResponse, ApiError> {
    let content = visit.followed("nodes", "", &part(&visit).await);
    Ok(layout::page(&visit, &visit.t("console-nodes"), content))
}

/// The live part of the page.
pub async fn part(visit: &ConsoleView) -> Markup {
    let columns = visit.columns("console-nodes-columns");
    let row = |node: &NodeStatus| {
        vec![
            html! {
                strong { (node.name) } @if node.is_this { " " (visit.t("console-this-node")) }
                br; (short_id(&node.id))
            },
            html! { (node.address) },
            html! { (node.version) },
            visit.time(node.started_at),
            html! { (visit.tn("console-seconds", &[("count", node.lease_seconds.to_string().into())])) },
            html! { (node.calls) },
            html! { (node.bridges) },
        ]
    };
    let found = system::read_nodes(&visit.process()).await;
    let rows = found.nodes.iter().map(row).collect();
    html! {
        div #part {
            @if let Some(told) = found.unanswered { (notice(Tone::Bad, html! { p lang="en" { (told) } })) }
            (table(visit, &visit.t("console-nodes"), &columns, rows))
        }
    }
}
