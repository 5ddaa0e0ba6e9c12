//! The forms that narrow a list: filters alone, or a search box with filters. Their values stand in the list's address.

use maud::{Markup, html};

use super::{
    components::{Field, summary},
    form::FormState,
    view::View,
};

/// The filters of the list at `path`, open if one is set or wrong. `all` is the message id of the link that clears
/// them.
pub fn filters(
    view: &View,
    path: &str,
    filled: &FormState,
    fields: &[Field],
    all: Option<&str>,
) -> Markup {
    let is_set = fields.iter().any(|field| field.is_set(filled));
    html! {
        details.filters open[is_set || !filled.errors().is_empty()] {
            summary { (view.t("page-filter")) }
            (summary(view, filled, fields))
            form method="get" action=(path) novalidate {
                div.columns { @for field in fields { (field.clone().filter().show(view, filled)) } }
                div.actions {
                    button type="submit" { (view.t("page-filter-submit")) }
                    @if let Some(all) = all { a.button.secondary href=(path) { (view.t(all)) } }
                }
            }
        }
    }
}

/// A list's search box, with its filters folded below: one form, so that each keeps the other's values.
#[derive(Debug)]
pub struct SearchForm<'a> {
    pub path: &'a str,
    pub searched: Field,
    /// It stands behind the box.
    pub beside: Markup,
    pub filters: &'a [Field],
    pub is_open: bool,
    /// The message id of the link that clears everything.
    pub all: Option<&'a str>,
}

impl SearchForm<'_> {
    /// The filled form, below its errors.
    pub fn show(&self, view: &View, filled: &FormState) -> Markup {
        let fields: Vec<Field> = [&self.searched]
            .into_iter()
            .chain(self.filters)
            .map(|field| field.clone().filter())
            .collect();
        html! {
            (summary(view, filled, &fields))
            form.search role="search" method="get" action=(self.path) novalidate {
                div.row {
                    (fields[0].show(view, filled))
                    button type="submit" { (view.t("page-search")) }
                    (self.beside)
                }
                details.filters open[self.is_open] {
                    summary { (view.t("page-filter")) }
                    div.columns { @for field in &fields[1..] { (field.show(view, filled)) } }
                    div.actions { button.secondary type="submit" { (view.t("page-filter-submit")) } }
                }
                @if let Some(all) = self.all { p.way { a href=(self.path) { (view.t(all)) } } }
            }
        }
    }
}
