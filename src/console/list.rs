//! Lists, whose filters are parameters of the address and are read like those of the operators' API; and actions
//! without fields.

use actix_web::HttpResponse;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::{layout, view::ConsoleView};
use crate::{
    http::{
        error::ApiError,
        extract::{FormFields, OperatorQuery},
    },
    pages::{
        components::{Field, summary},
        form::{FormState, FormValues},
        view::View,
    },
};

/// Rows on one page.
pub const ROWS: i64 = 20;
const OFFSET: &str = "offset";

/// A requested list.
#[derive(Debug)]
pub struct List<'a> {
    path: &'a str,
    filters: &'static [&'static str],
    rows: i64,
    typed: &'a FormValues,
}

impl<'a> List<'a> {
    /// The list at a path. `filters` are names of the API's parameters; other parameters are ignored.
    pub fn new(path: &'a str, filters: &'static [&'static str], typed: &'a FormValues) -> Self {
        Self {
            path,
            filters,
            rows: ROWS,
            typed,
        }
    }

    /// Sets the rows per page.
    pub fn of(mut self, rows: i64) -> Self {
        self.rows = rows;
        self
    }

    /// The API's parameters. An empty field sets none.
    pub fn form(&self) -> Result<FormFields, ApiError> {
        self.form_with(&[])
    }

    /// As [`Self::form`], with fixed parameters for the page's subject.
    pub fn form_with(&self, fixed: &[(&str, String)]) -> Result<FormFields, ApiError> {
        let mut asked = Map::new();
        for name in self.filters.iter().chain(&[OFFSET]) {
            // Unlike `text`, keeps characters that no text may hold, so that the API refuses them with an error.
            let text = self.typed.raw(name).next().unwrap_or_default().trim();
            if !text.is_empty() {
                asked.insert((*name).to_owned(), text.into());
            }
        }
        asked.insert("limit".to_owned(), self.rows.to_string().into());
        for (name, value) in fixed {
            asked.insert((*name).to_owned(), value.as_str().into());
        }
        FormFields::from_body(Value::Object(asked))
    }

    /// The API's parameters of a list without a subject.
    pub fn query_of(&self) -> Result<OperatorQuery, ApiError> {
        self.form().map(OperatorQuery)
    }

    /// The typed value of a field.
    pub fn text(&self, name: &str) -> &str {
        self.typed.text(name).unwrap_or_default().trim()
    }

    /// True for the first page of the unfiltered list.
    pub fn is_whole(&self) -> bool {
        self.query().is_empty()
    }

    fn filled(&self) -> FormState {
        FormState::with(self.filters.iter().map(|name| (*name, self.text(name))))
    }

    /// The filters' form, open if a filter is set.
    pub fn filter(&self, view: &View, fields: &[Field]) -> Markup {
        self.filter_as(view, &self.filled(), fields)
    }

    /// A page of the filters with their errors.
    pub fn refused(
        &self,
        visit: &ConsoleView,
        title: &str,
        error: ApiError,
        fields: &[Field],
    ) -> Result<HttpResponse, ApiError> {
        let filled = FormState::again(self.typed.clone(), error)?;
        let content = self.filter_as(visit, &filled, fields);
        Ok(layout::refused(visit, title, content))
    }

    fn filter_as(&self, view: &View, filled: &FormState, fields: &[Field]) -> Markup {
        let is_narrow = self.filters.iter().any(|name| !self.text(name).is_empty());
        html! {
            details.filters open[is_narrow || !filled.errors().is_empty()] {
                summary { "Filter" }
                (summary(view, filled, fields))
                form method="get" action=(self.path) novalidate {
                    div.columns { @for field in fields { (field.clone().filter().show(view, filled)) } }
                    div.actions {
                        button type="submit" { "Show" }
                        a.button.secondary href=(self.path) { "Show all" }
                    }
                }
            }
        }
    }

    /// Links to the previous and the next page of the one that begins at `offset`.
    pub fn paging(&self, offset: i64, has_more: bool) -> Markup {
        let before = (offset - self.rows).max(0);
        html! {
            @if offset > 0 || has_more {
                nav.paging aria-label="Pages" {
                    @if offset > 0 { a.button.secondary href=(self.address(before)) rel="prev" { "Previous page" } }
                    @if has_more { a.button.secondary href=(self.address(offset + self.rows)) rel="next" { "Next page" } }
                }
            }
        }
    }

    /// The same filters, encoded, each after an `&`, for the address of a stream.
    pub fn query(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for name in self.filters.iter().chain(&[OFFSET]) {
            let text = self.text(name);
            if !text.is_empty() {
                query.append_pair(name, text);
            }
        }
        match query.finish() {
            query if query.is_empty() => query,
            query => format!("&{query}"),
        }
    }

    fn address(&self, offset: i64) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for name in self.filters {
            let text = self.text(name);
            if !text.is_empty() {
                query.append_pair(name, text);
            }
        }
        if offset > 0 {
            query.append_pair(OFFSET, &offset.to_string());
        }
        match query.finish() {
            query if query.is_empty() => self.path.to_owned(),
            query => format!("{}?{query}", self.path),
        }
    }
}

/// A filter's choices: any, or one of these words.
pub fn any_of(words: &[&str]) -> Vec<(String, String)> {
    let any = (String::new(), "any".to_owned());
    let words = words
        .iter()
        .map(|word| ((*word).to_owned(), (*word).to_owned()));
    std::iter::once(any).chain(words).collect()
}

/// A field's choices; the first one is the default.
pub fn one_of(words: &[&str]) -> Vec<(String, String)> {
    let word = |word: &&str| ((*word).to_owned(), (*word).to_owned());
    words.iter().map(word).collect()
}

/// The answer to an action without fields: redirects to the page at `back`, or shows the error.
pub fn acted<T>(
    visit: &ConsoleView,
    done: Result<T, ApiError>,
    back: &str,
    word: &'static str,
) -> Result<HttpResponse, ApiError> {
    let error = match done {
        Ok(_) => return Ok(visit.see(back, word)),
        Err(error) => error,
    };
    let filled = FormState::again(FormValues::default(), error)?;
    let content = html! {
        (summary(visit, &filled, &[]))
        p { a.button.secondary href=(back) { "Back" } }
    };
    Ok(layout::refused(visit, "Nothing was changed", content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_the_filters_and_nothing_else() {
        let typed = FormValues::parse(b"status=answered&did=%2B62+1&x=1&tenantId=+&offset=40");
        let list = List::new("/calls", &["status", "did", "tenantId"], &typed);
        assert_eq!(list.address(0), "/calls?status=answered&did=%2B62+1");
        assert_eq!(
            list.address(60),
            "/calls?status=answered&did=%2B62+1&offset=60"
        );
        assert_eq!(list.query(), "&status=answered&did=%2B62+1&offset=40");
        let blank = FormValues::default();
        let list = List::new("/calls", &["status"], &blank);
        assert_eq!(
            (list.address(0).as_str(), list.query().as_str()),
            ("/calls", "")
        );
        assert_eq!(list.address(20), "/calls?offset=20");
    }
}
