//! Lists, whose filters are parameters of the address and are read like those of the operators' API; and actions
//! without fields.

use actix_web::HttpResponse;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::view::ConsoleView;
use crate::{
    http::{
        error::ApiError,
        extract::{FormFields, OperatorQuery},
    },
    pages::{
        components::{Field, empty, paging_as, summary, table},
        errors,
        filters::filters,
        form::{FormState, FormValues},
        layout,
        view::View,
    },
};

/// Rows on one page.
pub const ROWS: i64 = 20;
const OFFSET: &str = "offset";
/// The message id of the link that clears the filters.
const ALL: Option<&str> = Some("page-filter-none");

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
        filters(view, self.path, &self.filled(), fields, ALL)
    }

    /// The page with this content, or with the filters and the errors of what was typed there. `title` is a message
    /// id.
    pub fn page(
        &self,
        visit: &ConsoleView,
        title: &str,
        fields: &[Field],
        content: Result<Markup, ApiError>,
    ) -> Result<HttpResponse, ApiError> {
        let title = visit.t(title);
        let error = match content {
            Ok(content) => return Ok(layout::page(visit, &title, content)),
            Err(error) => error,
        };
        let filled = FormState::again(self.typed.clone(), error)?;
        let content = filters(visit, self.path, &filled, fields, ALL);
        Ok(errors::refused(visit, &title, content, &filled))
    }

    /// The element that is updated live: the rows that begin at `offset`, and the links to other pages.
    pub fn part(&self, visit: &ConsoleView, rows: ListRows, offset: i64, has_more: bool) -> Markup {
        html! {
            div #part {
                (rows.show(visit))
                (self.paging(visit, offset, has_more))
            }
        }
    }

    /// Links to the previous and the next page of the one that begins at `offset`.
    pub fn paging(&self, view: &View, offset: i64, has_more: bool) -> Markup {
        let before = (offset > 0).then(|| self.address((offset - self.rows).max(0)));
        let after = has_more.then(|| self.address(offset + self.rows));
        let ids = ("console-previous-page", "console-next-page");
        paging_as(view, ids, before.as_deref(), after.as_deref())
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

/// The rows of a list.
#[derive(Debug)]
pub struct ListRows {
    /// The message id of the caption.
    pub title: &'static str,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Markup>>,
    /// Title and text of an empty list, as message ids.
    pub none: (&'static str, &'static str),
}

impl ListRows {
    pub fn show(self, view: &View) -> Markup {
        let (none, words) = self.none;
        match self.rows.is_empty() {
            true => empty(&view.t(none), &view.t(words), html! {}),
            false => table(view, &view.t(self.title), &self.columns, self.rows),
        }
    }
}

/// A filter's choices: any, or one of these words.
pub fn any_of(view: &View, words: &[&str]) -> Vec<(String, String)> {
    let any = (String::new(), view.t("console-any"));
    std::iter::once(any).chain(one_of(view, words)).collect()
}

/// A field's choices; the first one is the default.
pub fn one_of(view: &View, words: &[&str]) -> Vec<(String, String)> {
    let choice = |word: &&str| ((*word).to_owned(), self::word(view, word));
    words.iter().map(choice).collect()
}

/// A word of the API in the reader's language; names and kinds of actions have no other.
pub fn word(view: &View, word: &str) -> String {
    let id = format!("console-word-{word}");
    view.lang()
        .find(&id, &[])
        .unwrap_or_else(|| word.to_owned())
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
        p { a.button.secondary href=(back) { (visit.t("console-back")) } }
    };
    let title = visit.t("console-nothing-changed");
    Ok(errors::refused(visit, &title, content, &filled))
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
