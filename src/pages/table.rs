//! A room's table of pages: access rights and routing.

use actix_web::{Route, Scope, http::Method, middleware::from_fn, web};

use crate::http::middleware::catch_panic;

/// The access right that a page needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageAccess {
    /// Also without a session.
    Anybody,
    /// Any signed-in person.
    Member,
    /// A person who may change things.
    Owner,
}

/// One method of a page.
#[derive(Debug)]
pub struct PageRoute {
    method: Method,
    /// Relative to the room's base path.
    path: &'static str,
    handler: fn(Route) -> Route,
    access: PageAccess,
}

/// A page that only reads.
pub const fn get(path: &'static str, handler: fn(Route) -> Route) -> PageRoute {
    PageRoute {
        method: Method::GET,
        path,
        handler,
        access: PageAccess::Member,
    }
}

/// A page that changes something.
pub const fn post(path: &'static str, handler: fn(Route) -> Route) -> PageRoute {
    PageRoute {
        method: Method::POST,
        path,
        handler,
        access: PageAccess::Owner,
    }
}

impl PageRoute {
    /// Overrides the default access right.
    pub const fn by(mut self, access: PageAccess) -> Self {
        self.access = access;
        self
    }
}

/// The result of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageMatch {
    Page(PageAccess),
    /// The methods that the path supports.
    OtherMethods(String),
    Nothing,
}

/// Looks up the pattern that the router matched. `base` is the room's base path.
pub fn find(pages: &[PageRoute], base: &str, pattern: Option<&str>, method: &Method) -> PageMatch {
    let path = pattern.and_then(|pattern| pattern.strip_prefix(base));
    let here: Vec<&PageRoute> = pages
        .iter()
        .filter(|page| Some(page.path) == path)
        .collect();
    match here.iter().find(|page| page.method == method) {
        Some(page) => PageMatch::Page(page.access),
        None if here.is_empty() => PageMatch::Nothing,
        None => {
            let methods: Vec<&str> = here.iter().map(|page| page.method.as_str()).collect();
            PageMatch::OtherMethods(methods.join(", "))
        }
    }
}

/// The path of the nearest parent of `path` that has a `GET` page. `pattern` is the pattern that the router
/// matched.
pub fn above<'p>(
    pages: &[PageRoute],
    base: &'p str,
    mut pattern: &str,
    mut path: &'p str,
) -> &'p str {
    while let (Some((up, _)), Some((there, _))) = (pattern.rsplit_once('/'), path.rsplit_once('/'))
    {
        (pattern, path) = (up, there);
        if matches!(
            find(pages, base, Some(pattern), &Method::GET),
            PageMatch::Page(_)
        ) {
            return path;
        }
    }
    match base {
        "" => "/",
        base => base,
    }
}

pub fn mount(pages: &[PageRoute], mut scope: Scope) -> Scope {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_takes_posts_belongs_to_the_page_above_it() {
        const BASE: &str = "/room";
        let (read, change) = (|route| route, |route| route);
        let pages = [
            get("", read),
            post("/sign-out", change),
            get("/agents/{id}", read),
            post("/agents/{id}/duplicate", change),
            get("/settings/members", read),
            post("/settings/members/{id}/role", change),
        ];
        for (pattern, path, expected) in [
            ("/sign-out", "/sign-out", ""),
            (
                "/agents/{id}/duplicate",
                "/agents/agent_1/duplicate",
                "/agents/agent_1",
            ),
            (
                "/settings/members/{id}/role",
                "/settings/members/user_1/role",
                "/settings/members",
            ),
            ("/nowhere/at/all", "/nowhere/at/all", ""),
        ] {
            let (pattern, path) = (format!("{BASE}{pattern}"), format!("{BASE}{path}"));
            let found = above(&pages, BASE, &pattern, &path);
            assert_eq!(found, format!("{BASE}{expected}"), "{path}");
        }
        let pages = [get("/", read), post("/sign-out", change)];
        assert_eq!(above(&pages, "", "/sign-out", "/sign-out"), "/");
    }
}
