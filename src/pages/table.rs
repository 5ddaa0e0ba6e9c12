//! Where a room lists its pages: who may ask for each, and how they are mounted.

use actix_web::{Route, Scope, http::Method, middleware::from_fn, web};

use crate::http::middleware::catch_panic;

/// Who may ask for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Also who is not signed in.
    Anybody,
    /// Whoever is signed in.
    Member,
    /// Only who may change things.
    Owner,
}

/// A method of a page.
#[derive(Debug)]
pub struct Page {
    method: Method,
    /// Below what the paths of all pages of the room begin with.
    path: &'static str,
    handler: fn(Route) -> Route,
    access: Access,
}

/// What is read.
pub const fn get(path: &'static str, handler: fn(Route) -> Route) -> Page {
    Page {
        method: Method::GET,
        path,
        handler,
        access: Access::Member,
    }
}

/// What changes something.
pub const fn post(path: &'static str, handler: fn(Route) -> Route) -> Page {
    Page {
        method: Method::POST,
        path,
        handler,
        access: Access::Owner,
    }
}

impl Page {
    /// For others than a page of this kind is for.
    pub const fn by(mut self, access: Access) -> Self {
        self.access = access;
        self
    }
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Page(Access),
    /// The methods that the path takes.
    OtherMethods(String),
    Nothing,
}

/// Looks up the pattern that the router matched. `base` is what the paths of all these pages begin with.
pub fn find(pages: &[Page], base: &str, pattern: Option<&str>, method: &Method) -> Found {
    let path = pattern.and_then(|pattern| pattern.strip_prefix(base));
    let here: Vec<&Page> = pages
        .iter()
        .filter(|page| Some(page.path) == path)
        .collect();
    match here.iter().find(|page| page.method == method) {
        Some(page) => Found::Page(page.access),
        None if here.is_empty() => Found::Nothing,
        None => {
            let methods: Vec<&str> = here.iter().map(|page| page.method.as_str()).collect();
            Found::OtherMethods(methods.join(", "))
        }
    }
}

/// Mounts the pages in a scope.
pub fn mount(pages: &[Page], mut scope: Scope) -> Scope {
    let mut paths: Vec<&str> = pages.iter().map(|page| page.path).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let mut resource = web::resource(path).wrap(from_fn(catch_panic));
        for page in pages.iter().filter(|page| page.path == path) {
            resource = resource.route((page.handler)(web::method(page.method.clone())));
        }
        scope = scope.service(resource);
    }
    scope
}
