//! This process's configuration: values, with secrets masked, and their origins.

use actix_web::HttpResponse;
use maud::{Markup, html};

use super::{
    list::{List, ListRows, word},
    view::ConsoleView,
};
use crate::{
    config::ConfigurationKey,
    http::error::ApiError,
    operations::PageRange,
    pages::{components::Field, form::FormValues},
};

const PATH: &str = "/configuration";
const TITLE: &str = "console-configuration";
const FILTERS: &[&str] = &["key"];
const ROWS: i64 = 50;

/// `GET /configuration`
pub async fn show(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let list = List::new(PATH, FILTERS, &typed).of(ROWS);
    let key = [Field::text("key", visit.t("console-key")).hint(visit.t("console-key-hint"))];
    let page = list
        .form()
        .and_then(|asked| asked.read(&["key"], |form| Some(PageRange::read(form))));
    let content = page.map(|page| {
        html! {
            p.lead { (visit.t("console-configuration-words")) }
            (list.filter(&visit, &key))
            (rows(&visit, &list, &page))
        }
    });
    list.page(&visit, TITLE, &key, content)
}

fn rows(visit: &ConsoleView, list: &List<'_>, page: &PageRange) -> Markup {
    let process = visit.process();
    let wanted = list.text("key").to_lowercase();
    let fits = |shown: &&ConfigurationKey| shown.key.to_lowercase().contains(&wanted);
    let found: Vec<&ConfigurationKey> = process.configuration.iter().filter(fits).collect();
    let (found, has_more) = page.cut(found);
    let row = |shown: &&ConfigurationKey| {
        vec![
            html! { code { (shown.key) } },
            html! { code.long { (shown.value) } },
            html! { (word(visit, &shown.origin)) },
        ]
    };
    let rows = ListRows {
        title: TITLE,
        columns: visit.columns("console-configuration-columns"),
        rows: found.iter().map(row).collect(),
        none: ("console-no-keys-match", "console-no-keys-match-words"),
    };
    html! { (rows.show(visit)) (list.paging(visit, page.offset, has_more)) }
}
