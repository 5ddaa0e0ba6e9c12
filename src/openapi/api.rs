//! One API: its routes, and what holds of all of them.

use actix_web::{Scope, http::Method, middleware::from_fn, web};
use serde_json::Value;

use super::{Route, Schemas};
use crate::http::{
    error::{ApiError, Code, Missing},
    middleware::catch_panic,
    route::AtPath,
};

/// An API of this service.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// What all its paths begin with.
    pub base: &'static str,
    pub routes: &'static [Route],
    pub title: &'static str,
    /// What it is for, in Markdown.
    pub about: &'static str,
    /// The name of the security scheme, and the scheme.
    pub security: (&'static str, fn() -> Value),
    /// What every route can fail with.
    pub always: &'static [Code],
    /// What every route can fail with that does not only read.
    pub on_writes: &'static [Code],
    /// Whether answers say how many requests are left.
    pub limited: bool,
    /// Whether a query parameter without a value was not given.
    pub skips_empty: bool,
    /// What is sent to those who use it.
    pub webhooks: Option<fn(&mut Schemas) -> Value>,
}

impl Api {
    /// What is at the pattern that the router matched.
    pub fn at(&self, pattern: Option<&str>, method: &Method) -> AtPath {
        let path = pattern.and_then(|pattern| pattern.strip_prefix(self.base));
        let here: Vec<&Route> = self
            .routes
            .iter()
            .filter(|route| Some(route.path) == path)
            .collect();
        match here.iter().find(|route| route.method == method) {
            Some(route) => AtPath::Route {
                reads_query: !route.query.is_empty(),
            },
            None if here.is_empty() => AtPath::Nothing,
            None => {
                let methods: Vec<&str> = here.iter().map(|route| route.method.as_str()).collect();
                AtPath::OtherMethods(methods.join(", "))
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

/// What is answered where nothing is.
pub async fn nothing() -> Result<actix_web::HttpResponse, ApiError> {
    Err(ApiError::NotFound(Missing::Route))
}
