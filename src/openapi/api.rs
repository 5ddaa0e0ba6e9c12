//! An API: its routes, and their common properties.

use actix_web::{Scope, http::Method, middleware::from_fn, web};
use serde_json::Value;

use super::{ApiRoute, SchemaSet};
use crate::http::{
    error::{ApiError, Code, Missing},
    middleware::catch_panic,
    route::PathMatch,
};

#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// The common prefix of all paths.
    pub base: &'static str,
    pub routes: &'static [ApiRoute],
    pub title: &'static str,
    /// A description in Markdown.
    pub about: &'static str,
    /// The security scheme and its name.
    pub security: (&'static str, fn() -> Value),
    /// Errors of every route.
    pub always: &'static [Code],
    /// Errors of every route that is no GET.
    pub on_writes: &'static [Code],
    /// True if answers have the headers of the rate limit.
    pub limited: bool,
    /// True if an empty query parameter counts as absent.
    pub skips_empty: bool,
    /// The schemas of outgoing webhooks.
    pub webhooks: Option<fn(&mut SchemaSet) -> Value>,
}

impl Api {
    /// Looks up the pattern that the router matched.
    pub fn at(&self, pattern: Option<&str>, method: &Method) -> PathMatch {
        let path = pattern.and_then(|pattern| pattern.strip_prefix(self.base));
        let here: Vec<&ApiRoute> = self
            .routes
            .iter()
            .filter(|route| Some(route.path) == path)
            .collect();
        match here.iter().find(|route| route.method == method) {
            Some(route) => PathMatch::Route {
                reads_query: !route.query.is_empty(),
            },
            None if here.is_empty() => PathMatch::Nothing,
            None => {
                let methods: Vec<&str> = here.iter().map(|route| route.method.as_str()).collect();
                PathMatch::OtherMethods(methods.join(", "))
            }
        }
    }

    /// All routes, below the base.
    pub fn scope(&self) -> Scope {
        let mut scope = web::scope(self.base);
        let mut paths: Vec<&str> = self.routes.iter().map(|route| route.path).collect();
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            let mut resource = web::resource(path).wrap(from_fn(catch_panic));
            for route in self.routes.iter().filter(|route| route.path == path) {
                resource = resource.route((route.handler)(web::method(route.method.clone())));
            }
            scope = scope.service(resource);
        }
        scope.default_service(web::to(nothing))
    }
}

/// The answer for unknown paths.
pub async fn nothing() -> Result<actix_web::HttpResponse, ApiError> {
    Err(ApiError::NotFound(Missing::Route))
}
