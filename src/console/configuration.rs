//! This process's configuration: values, with secrets masked, and their origins.

use actix_web::{HttpRequest, HttpResponse};
use maud::html;

use super::{layout, list::List, view::ConsoleView};
use crate::{
    config::ConfigurationKey,
    http::error::ApiError,
    operations::PageRange,
    pages::{
        components::{Field, empty, table},
        form::FormValues,
    },
};

const PATH: &str = "/configuration";
const TITLE: &str = "Configuration";
const FILTERS: &[&str] = &["key"];
const ROWS: i64 = 50;

/// `GET /configuration`
pub async fn show(visit: ConsoleView, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    let list = List::new(PATH, FILTERS, &typed).of(ROWS);
    let key = [Field::text("key", "Key".to_owned()).hint("Or a part of the key.".to_owned())];
    let page = list
        .form()
        .and_then(|asked| asked.read(&["key"], |form| Some(PageRange::read(form))));
    let page = match page {
        Ok(page) => page,
        Err(error) => return list.refused(&visit, TITLE, error, &key),
    };
    let process = visit.process();
    let wanted = list.text("key").to_lowercase();
    let fits = |shown: &&ConfigurationKey| shown.key.to_lowercase().contains(&wanted);
    let found: Vec<&ConfigurationKey> = process.configuration.iter().filter(fits).collect();
    let (found, has_more) = page.cut(found);
    let columns = ["Key", "Value", "From"].map(str::to_owned);
    let row = |shown: &&ConfigurationKey| {
        vec![
            html! { code { (shown.key) } },
            html! { code.long { (shown.value) } },
            html! { (shown.origin) },
        ]
    };
    let content = html! {
        p.lead { "The configuration of this node at its start. Secrets are masked." }
        (list.filter(&visit, &key))
        @if found.is_empty() { (empty("No keys match", "No key contains this text.", html! {})) }
        @else { (table(&visit, TITLE, &columns, found.iter().map(row).collect())) }
        (list.paging(page.offset, has_more))
    };
    Ok(layout::page(&visit, TITLE, content))
}
