//! The top of a page: the way back, the title, and the page's main action.

use maud::{Markup, html};

use super::view::View;

/// A page's title with what stands around it. A text is a title alone.
#[derive(Clone, Debug)]
pub struct PageHeading<'a> {
    title: &'a str,
    /// Names and paths of the things that the page's subject belongs to, the outermost first.
    above: Vec<(String, String)>,
    action: Option<Markup>,
}

impl<'a> From<&'a str> for PageHeading<'a> {
    fn from(title: &'a str) -> Self {
        Self {
            title,
            above: Vec::new(),
            action: None,
        }
    }
}

impl<'a> From<&'a String> for PageHeading<'a> {
    fn from(title: &'a String) -> Self {
        title.as_str().into()
    }
}

impl<'a> PageHeading<'a> {
    /// The title of a page.
    pub fn new(title: &'a str) -> Self {
        title.into()
    }

    /// Adds a thing that the subject belongs to, below those that were added before.
    pub fn below(mut self, name: &str, path: &str) -> Self {
        self.above.push((name.to_owned(), path.to_owned()));
        self
    }

    /// The button or link of the page's main action, at the top right.
    pub fn action(mut self, action: Markup) -> Self {
        self.action = Some(action);
        self
    }

    pub const fn title(&self) -> &str {
        self.title
    }

    /// The way back: a link to the navigation's entry, or the whole way to the page's subject.
    pub(super) fn way(&self, view: &View) -> Markup {
        let place = view.audience().place(view.path());
        let Some((name, path)) = place.filter(|(_, path)| *path != view.path()) else {
            return html! {};
        };
        html! {
            @if self.above.is_empty() {
                p.way.up { a href=(path) { "← " (view.t(name)) } }
            } @else {
                nav.way.up aria-label=(view.t("page-way")) {
                    ol {
                        li { a href=(path) { (view.t(name)) } }
                        @for (name, path) in &self.above { li { a href=(path) { (name) } } }
                        li aria-current="page" { (self.title) }
                    }
                }
            }
        }
    }

    pub(super) fn show(&self) -> Markup {
        html! {
            @match &self.action {
                Some(action) => div.heading { h1 { (self.title) } (action) },
                None => h1 { (self.title) },
            }
        }
    }
}
